//! [`Families`]: metric families built at scrape time from plain numbers.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, Opts};

/// The families of one scrape. Nothing here lives longer, so a stream that is gone leaves no series behind.
#[derive(Default)]
pub(super) struct Families {
    families: Vec<MetricFamily>,
    errors: Vec<prometheus::Error>,
}

/// One series: its label values, in the family's order, and its value.
pub(super) type Series<'a> = (Vec<&'a str>, f64);

impl Families {
    /// Adds a counter family.
    pub(super) fn counter<'a>(
        &mut self,
        name: &str,
        help: &str,
        labels: &[&str],
        series: impl IntoIterator<Item = Series<'a>>,
    ) {
        let family = CounterVec::new(Opts::new(name, help), labels);
        self.add(family, series, |family, labels, value| {
            family
                .get_metric_with_label_values(labels)
                .map(|counter| counter.inc_by(value.max(0.0)))
        });
    }

    /// Adds a gauge family.
    pub(super) fn gauge<'a>(
        &mut self,
        name: &str,
        help: &str,
        labels: &[&str],
        series: impl IntoIterator<Item = Series<'a>>,
    ) {
        let family = GaugeVec::new(Opts::new(name, help), labels);
        self.add(family, series, |family, labels, value| {
            family
                .get_metric_with_label_values(labels)
                .map(|gauge| gauge.set(value))
        });
    }

    fn add<'a, F: Collector>(
        &mut self,
        family: prometheus::Result<F>,
        series: impl IntoIterator<Item = Series<'a>>,
        set: impl Fn(&F, &[&str], f64) -> prometheus::Result<()>,
    ) {
        match family {
            Ok(family) => {
                for (labels, value) in series {
                    self.errors.extend(set(&family, &labels, value).err());
                }
                self.families.extend(
                    family
                        .collect()
                        .into_iter()
                        .filter(|f| !f.get_metric().is_empty()),
                );
            }
            Err(error) => self.errors.push(error),
        }
    }

    /// The families, or the first mistake in their names or labels.
    pub(super) fn finish(self) -> prometheus::Result<Vec<MetricFamily>> {
        match self.errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(self.families),
        }
    }
}

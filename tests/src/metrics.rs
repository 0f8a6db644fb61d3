//! Prometheus text, parsed as strictly as a scraper does.

/// One sample line.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Metric name.
    pub name: String,
    /// Labels in the order written.
    pub labels: Vec<(String, String)>,
    /// Value.
    pub value: f64,
}

impl Sample {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// All samples of one scrape.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// In the order written.
    pub samples: Vec<Sample>,
    /// `# TYPE` lines: name and type.
    pub types: Vec<(String, String)>,
}

impl Metrics {
    /// Parses the text exposition format.
    ///
    /// # Panics
    /// On a malformed line.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut metrics = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(comment) = line.strip_prefix("# TYPE ") {
                let (name, kind) = comment
                    .split_once(' ')
                    .unwrap_or_else(|| panic!("metrics: {line}"));
                metrics.types.push((name.to_owned(), kind.to_owned()));
            } else if !line.starts_with('#') {
                metrics
                    .samples
                    .push(sample(line).unwrap_or_else(|| panic!("metrics: malformed line: {line}")));
            }
        }
        metrics
    }

    /// Sum of all samples that `wanted` takes.
    pub fn sum(&self, wanted: impl Fn(&Sample) -> bool) -> f64 {
        self.samples
            .iter()
            .filter(|sample| wanted(sample))
            .map(|sample| sample.value)
            .sum()
    }

    /// Sum of the counters that carry `label` = `value`.
    #[must_use]
    pub fn labelled(&self, label: &str, value: &str) -> f64 {
        self.sum(|sample| sample.name.ends_with("_total") && sample.label(label) == Some(value))
    }

    /// Sum of all samples of one name.
    #[must_use]
    pub fn named(&self, name: &str) -> f64 {
        self.sum(|sample| sample.name == name)
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (name, labels, value) = match line.split_once('{') {
        None => {
            let (name, value) = line.split_once(' ')?;
            (name, Vec::new(), value)
        }
        Some((name, rest)) => {
            let (labels, value) = labels(rest)?;
            (name, labels, value)
        }
    };
    let name_ok = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
    let value = value.split_ascii_whitespace().next()?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        other => other.parse().ok()?,
    };
    name_ok.then(|| Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(value) = rest.strip_prefix('}') {
            return Some((labels, value));
        }
        let (key, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        labels.push((key.to_owned(), value));
        rest = &after[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

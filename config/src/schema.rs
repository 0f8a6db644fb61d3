//! The JSON schema of the configuration file.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::Value as Json;

use crate::model::Config;
use crate::range::{RANGES, Range};

/// The schema as derived from the structs.
pub(crate) fn raw() -> Schema {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<Config>()
}

/// The JSON schema (draft 2020-12) of the configuration file, with each key's documentation, default and range, as
/// committed in `config/spillway.schema.json`. Editors check a file against it when its first line says
/// `#:schema ./spillway.schema.json`.
pub fn schema() -> String {
    let mut schema = raw().to_value();
    for (key, range) in RANGES {
        let pointer = format!("/properties/{}", key.replace('.', "/properties/"));
        if let Some(node) = schema.pointer_mut(&pointer).and_then(Json::as_object_mut) {
            if let Range::Count(least, most) = range {
                node.insert("minimum".into(), (*least).into());
                node.insert("maximum".into(), (*most).into());
            }
            if let Some(Json::String(description)) = node.get_mut("description") {
                description.push_str(&format!("\n\nFrom {range}."));
            }
        }
    }
    format!("{schema:#}\n")
}

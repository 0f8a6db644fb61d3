//! onMetaData, edited before it is relayed.

use spillway_amf::{Value, amf0};
use spillway_media::Codec;

use crate::audio::legacy_sound_format;
use crate::script::{ON_METADATA, ScriptData};
use crate::video::legacy_codec_id;

/// Properties of a finished file, which make players show a file's controls (interop case 70).
const FILE_PROPERTIES: [&str; 14] = [
    "duration",
    "totalduration",
    "filesize",
    "datasize",
    "videosize",
    "audiosize",
    "keyframes",
    "hasKeyframes",
    "canSeekToEnd",
    "canseekontime",
    "hasCuePoints",
    "lasttimestamp",
    "lastkeyframetimestamp",
    "lastkeyframelocation",
];

/// The properties of an onMetaData message, in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metadata {
    properties: Vec<(String, Value)>,
}

impl Metadata {
    /// Metadata without properties, for streams that never sent any (interop case 64).
    pub fn new() -> Self {
        Self::default()
    }

    /// The metadata in a data message; `None` when it is another message. One without properties
    /// counts as empty metadata.
    pub fn from_script(data: &ScriptData) -> Option<Self> {
        if !data.is_metadata() {
            return None;
        }
        let properties = data
            .values
            .iter()
            .map(Value::properties)
            .find(|properties| !properties.is_empty());
        Some(Self {
            properties: properties.unwrap_or_default().to_vec(),
        })
    }

    /// The properties, in their order.
    pub fn properties(&self) -> &[(String, Value)] {
        &self.properties
    }

    /// The first property of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.properties
            .iter()
            .find(|(have, _)| have == name)
            .map(|(_, value)| value)
    }

    /// Sets a property where it stands, or adds it at the end. Repetitions of the name go.
    pub fn set(&mut self, name: &str, value: Value) {
        let at = self.properties.iter().position(|(have, _)| have == name);
        self.remove(name);
        let at = at.unwrap_or(self.properties.len()).min(self.properties.len());
        self.properties.insert(at, (name.to_owned(), value));
    }

    /// Removes every property of this name.
    pub fn remove(&mut self, name: &str) {
        self.properties.retain(|(have, _)| have != name);
    }

    /// Drops what only a finished file can say: duration, sizes, key frame index. Everything else
    /// stays, unknown properties included.
    pub fn clean(&mut self) {
        self.properties
            .retain(|(name, _)| !FILE_PROPERTIES.iter().any(|file| file.eq_ignore_ascii_case(name)));
    }

    /// Makes `videocodecid`, `audiocodecid`, `hasVideo` and `hasAudio` true to the tracks that
    /// exist: players wait for each one named here (interop cases 65, 138). Codecs that only
    /// Enhanced RTMP names are written as their FourCC number.
    pub fn set_tracks(&mut self, video: Option<Codec>, audio: Option<Codec>) {
        self.set_track("hasVideo", "videocodecid", video, video.and_then(video_number));
        self.set_track("hasAudio", "audiocodecid", audio, audio.and_then(audio_number));
    }

    fn set_track(&mut self, flag: &str, id: &str, codec: Option<Codec>, number: Option<f64>) {
        match number {
            Some(number) => self.set(id, Value::Number(number)),
            None => self.remove(id),
        }
        self.set(flag, Value::Boolean(codec.is_some()));
    }

    /// The message body: the name, then an ECMA array with its right end marker (case 66). Without
    /// `@setDataFrame`, as players want it (case 71).
    pub fn to_body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        amf0::write(&Value::String(ON_METADATA.to_owned()), &mut body);
        amf0::write(&Value::EcmaArray(self.properties.clone()), &mut body);
        body
    }
}

/// The number of a video codec: HEVC and AV1 have private legacy ids, but E-RTMP's FourCC is what
/// specifications know.
fn video_number(codec: Codec) -> Option<f64> {
    match codec {
        Codec::Hevc | Codec::Av1 => fourcc_number(codec),
        _ => legacy_codec_id(codec)
            .map(f64::from)
            .or_else(|| fourcc_number(codec)),
    }
}

fn audio_number(codec: Codec) -> Option<f64> {
    legacy_sound_format(codec)
        .map(f64::from)
        .or_else(|| fourcc_number(codec))
}

fn fourcc_number(codec: Codec) -> Option<f64> {
    codec.fourcc().map(|fourcc| f64::from(u32::from_be_bytes(fourcc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: f64) -> Value {
        Value::Number(value)
    }

    fn metadata(properties: &[(&str, Value)]) -> Metadata {
        Metadata {
            properties: properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        }
    }

    fn names(metadata: &Metadata) -> Vec<&str> {
        metadata
            .properties()
            .iter()
            .map(|(name, _)| name.as_str())
            .collect()
    }

    #[test]
    fn file_properties_are_dropped_and_unknown_ones_kept() {
        let mut live = metadata(&[
            ("duration", number(400.0)),
            ("width", number(320.0)),
            ("fileSize", number(1.0)),
            ("keyframes", Value::Object(vec![])),
            ("hasKeyframes", Value::Boolean(true)),
            ("canSeekToEnd", Value::Boolean(true)),
            ("x-vendor", Value::Null),
        ]);
        live.clean();
        assert_eq!(names(&live), ["width", "x-vendor"]);
    }

    #[test]
    fn the_tracks_named_are_the_tracks_there_are() {
        let mut lies = metadata(&[
            ("audiocodecid", Value::String("mp4a".to_owned())),
            ("width", number(320.0)),
            ("videocodecid", number(7.0)),
            ("videocodecid", number(2.0)),
        ]);
        lies.set_tracks(Some(Codec::Hevc), None);
        assert_eq!(names(&lies), ["width", "videocodecid", "hasVideo", "hasAudio"]);
        assert_eq!(lies.get("videocodecid"), Some(&number(1_752_589_105.0)));
        assert_eq!(lies.get("hasVideo"), Some(&Value::Boolean(true)));
        assert_eq!(lies.get("hasAudio"), Some(&Value::Boolean(false)));
    }

    #[test]
    fn codec_numbers() {
        let mut made = Metadata::new();
        for (codec, wanted) in [
            (Codec::Avc, 7.0),
            (Codec::Sorenson, 2.0),
            (Codec::Av1, 1_635_135_537.0),
            (Codec::Vp9, 1_987_063_865.0),
        ] {
            made.set_tracks(Some(codec), None);
            assert_eq!(made.get("videocodecid"), Some(&number(wanted)));
        }
        for (codec, wanted) in [
            (Codec::Aac, 10.0),
            (Codec::Mp3, 2.0),
            (Codec::Opus, 1_332_770_163.0),
        ] {
            made.set_tracks(None, Some(codec));
            assert_eq!(made.get("audiocodecid"), Some(&number(wanted)));
        }
    }

    #[test]
    fn the_body_is_read_back_and_ends_right() {
        let made = metadata(&[
            ("width", number(320.0)),
            ("encoder", Value::String("x".to_owned())),
        ]);
        let body = made.to_body();
        assert_eq!(body[..13], *b"\x02\0\x0AonMetaData");
        assert_eq!(body[body.len() - 3..], [0, 0, 9]);
        let read = Metadata::from_script(&ScriptData::parse(&body).unwrap()).unwrap();
        assert_eq!(read, made);
    }

    #[test]
    fn other_messages_are_no_metadata() {
        let data = |name: &str, values| ScriptData {
            name: name.to_owned(),
            values,
        };
        assert_eq!(Metadata::from_script(&data("onCuePoint", vec![])), None);
        assert_eq!(
            Metadata::from_script(&data(ON_METADATA, vec![Value::Null])),
            Some(Metadata::new())
        );
    }

    #[test]
    fn a_property_is_set_in_its_place() {
        let mut edited = metadata(&[("a", number(1.0)), ("b", number(2.0)), ("a", number(3.0))]);
        edited.set("a", number(4.0));
        edited.set("c", number(5.0));
        assert_eq!(
            edited,
            metadata(&[("a", number(4.0)), ("b", number(2.0)), ("c", number(5.0))])
        );
    }
}

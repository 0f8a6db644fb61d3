//! From message bodies to configs and samples.

use bytes::Bytes;
use spillway_media::aac::AacConfig;
use spillway_media::h264::AvcConfig;
use spillway_media::hevc::HevcConfig;
use spillway_media::mp3::FrameHeader;
use spillway_media::{Codec, CodecConfig, MediaError, nal};

use crate::audio::{AudioHeader, AudioPacket, aac_head};
use crate::error::FlvError;
use crate::video::{VideoHeader, VideoPacket, avc_head};

/// The config in a video sequence start, legacy or enhanced; `header` is that of `body`. Codecs
/// that are relayed unread give [`CodecConfig::Other`], for frames too, since legacy ones have no
/// sequence start.
///
/// # Errors
/// [`FlvError::UnknownCodec`]; [`FlvError::NotAConfig`] for any other message;
/// [`FlvError::EmptyConfig`] and [`FlvError::Config`] when the config must be taken from the
/// stream itself.
pub fn video_config(header: &VideoHeader, body: &[u8]) -> Result<CodecConfig, FlvError> {
    let codec = header.codec.ok_or(FlvError::UnknownCodec)?;
    let data = header.data_of(body);
    let failed = |source| FlvError::Config { codec, source };
    match (codec, header.packet) {
        (Codec::Avc | Codec::Hevc, VideoPacket::SequenceStart) if data.is_empty() => {
            Err(FlvError::EmptyConfig { codec })
        }
        (Codec::Avc, VideoPacket::SequenceStart) => {
            AvcConfig::parse(data).map(CodecConfig::Avc).map_err(failed)
        }
        (Codec::Hevc, VideoPacket::SequenceStart) => {
            HevcConfig::parse(data).map(CodecConfig::Hevc).map_err(failed)
        }
        (Codec::Avc | Codec::Hevc, _) => Err(FlvError::NotAConfig { codec }),
        (_, VideoPacket::SequenceStart | VideoPacket::Frame | VideoPacket::Mpeg2TsSequenceStart) => {
            Ok(CodecConfig::Other(codec))
        }
        _ => Err(FlvError::NotAConfig { codec }),
    }
}

/// The config in an audio message: the sequence start of AAC, legacy or enhanced, or a frame of
/// MP3, which describes itself. Other codecs give [`CodecConfig::Other`] for both kinds. For AAC
/// frames with ADTS headers see [`spillway_media::aac::strip_adts`].
///
/// # Errors
/// [`FlvError::UnknownCodec`]; [`FlvError::NotAConfig`] for any other message;
/// [`FlvError::EmptyConfig`] and [`FlvError::Config`] when this message should tell the config
/// and does not.
pub fn audio_config(header: &AudioHeader, body: &[u8]) -> Result<CodecConfig, FlvError> {
    let codec = header.codec.ok_or(FlvError::UnknownCodec)?;
    let data = header.data_of(body);
    let failed = |source| FlvError::Config { codec, source };
    match (codec, header.packet) {
        (Codec::Aac, AudioPacket::SequenceStart) | (Codec::Mp3, AudioPacket::Frame) if data.is_empty() => {
            Err(FlvError::EmptyConfig { codec })
        }
        (Codec::Aac, AudioPacket::SequenceStart) => {
            AacConfig::parse(data).map(CodecConfig::Aac).map_err(failed)
        }
        (Codec::Mp3, AudioPacket::Frame) => FrameHeader::parse(data).map(CodecConfig::Mp3).map_err(failed),
        (Codec::Aac | Codec::Mp3, _) => Err(FlvError::NotAConfig { codec }),
        (_, AudioPacket::SequenceStart | AudioPacket::Frame) => Ok(CodecConfig::Other(codec)),
        _ => Err(FlvError::NotAConfig { codec }),
    }
}

/// [`video_config`] for a body whose header was not read yet.
///
/// # Errors
/// Those of [`VideoHeader::parse`] and [`video_config`].
pub fn config_of_video(body: &[u8]) -> Result<CodecConfig, FlvError> {
    video_config(&VideoHeader::parse(body)?, body)
}

/// [`audio_config`] for a body whose header was not read yet.
///
/// # Errors
/// Those of [`AudioHeader::parse`] and [`audio_config`].
pub fn config_of_audio(body: &[u8]) -> Result<CodecConfig, FlvError> {
    audio_config(&AudioHeader::parse(body)?, body)
}

/// Whether the data of an H.264 or H.265 frame is an Annex B byte stream (interop case 86). The
/// declared length format is tried first and over the whole of it (case 87). Ask once per
/// publisher and keep the answer.
pub fn is_annex_b(data: &[u8], nal_length_size: u8) -> bool {
    nal::starts_like_annex_b(data) && !nal::is_length_prefixed(data, nal_length_size)
}

/// The data of an H.264 or H.265 frame with 4-byte lengths (interop cases 86, 88). The buffer is
/// shared when it is so already, and rewritten when it is Annex B or has other lengths.
///
/// # Errors
/// [`MediaError`] when it is neither; drop the frame (case 90).
pub fn access_unit(data: &Bytes, nal_length_size: u8) -> Result<Bytes, MediaError> {
    if is_annex_b(data, nal_length_size) {
        return Ok(nal::annex_b_to_length_prefixed(data).into());
    }
    if nal_length_size != 4 {
        return nal::to_four_byte_lengths(data, nal_length_size).map(Bytes::from);
    }
    nal::length_prefixed(data, 4).try_for_each(|unit| unit.map(|_| ()))?;
    Ok(data.clone())
}

/// A legacy sequence header body for `config`, where the publisher sent none that can be used
/// (interop cases 85, 86, 102). `None` for codecs that legacy FLV has no header for.
pub fn legacy_sequence_header(config: &CodecConfig) -> Option<Vec<u8>> {
    let (mut body, record) = match config {
        CodecConfig::Avc(avc) => (
            avc_head(VideoPacket::SequenceStart, true, 0).to_vec(),
            avc.to_record(),
        ),
        CodecConfig::Aac(aac) => (aac_head(AudioPacket::SequenceStart).to_vec(), aac.raw.to_vec()),
        _ => return None,
    };
    body.extend_from_slice(&record);
    Some(body)
}

#[cfg(test)]
mod tests;

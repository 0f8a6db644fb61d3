//! The message streams of one connection.

use super::RequestId;

/// Message streams one connection may have. Flash applications use two or three; everything else one.
const MAX_STREAMS: usize = 8;

/// What a message stream is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Publish,
    Play,
}

/// A message stream's use, from the client's request on.
#[derive(Debug)]
struct Use {
    purpose: Purpose,
    request: RequestId,
    /// The name as the client sent it, to recognise it in a later FCUnpublish.
    name: String,
    /// The message stream the client sent its command on, where it looks for the answers.
    reply_to: u32,
    accepted: bool,
    wishes: Wishes,
}

/// What a player asked for while its play waited for acceptance; the last word on each counts.
#[derive(Debug, Default)]
struct Wishes {
    paused: Option<bool>,
    audio: Option<bool>,
    video: Option<bool>,
}

/// A player's wish about the media it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Paused(bool),
    Audio(bool),
    Video(bool),
}

#[derive(Debug)]
pub(super) struct NetStream {
    pub(super) id: u32,
    current: Option<Use>,
}

impl NetStream {
    pub(super) fn purpose(&self) -> Option<Purpose> {
        self.current.as_ref().map(|current| current.purpose)
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.accepted)
    }

    pub(super) fn accept(&mut self) {
        if let Some(current) = &mut self.current {
            current.accepted = true;
        }
    }

    pub(super) fn name(&self) -> &str {
        self.current.as_ref().map_or("", |current| &current.name)
    }

    pub(super) fn reply_to(&self) -> u32 {
        self.current.as_ref().map_or(self.id, |current| current.reply_to)
    }

    /// Remembers a wish until [`take_wish`](Self::take_wish).
    pub(super) fn remember(&mut self, wish: Wish) {
        let Some(current) = &mut self.current else { return };
        match wish {
            Wish::Paused(paused) => current.wishes.paused = Some(paused),
            Wish::Audio(wanted) => current.wishes.audio = Some(wanted),
            Wish::Video(wanted) => current.wishes.video = Some(wanted),
        }
    }

    /// A remembered wish; none before the play is accepted.
    pub(super) fn take_wish(&mut self) -> Option<Wish> {
        let current = self.current.as_mut().filter(|current| current.accepted)?;
        let wishes = &mut current.wishes;
        let paused = wishes.paused.take().map(Wish::Paused);
        paused
            .or_else(|| wishes.audio.take().map(Wish::Audio))
            .or_else(|| wishes.video.take().map(Wish::Video))
    }

    /// Ends what the stream does; the stream stays.
    pub(super) fn release(&mut self) -> Option<Purpose> {
        self.current.take().map(|ended| ended.purpose)
    }
}

#[derive(Debug, Default)]
pub(super) struct Streams {
    list: Vec<NetStream>,
    requests: u64,
}

impl Streams {
    /// A new stream with the lowest free id, 1 for the first; `None` if there are too many.
    pub(super) fn create(&mut self) -> Option<u32> {
        let highest = u32::try_from(MAX_STREAMS).ok()?;
        let id = (1..=highest).find(|id| self.get(*id).is_none())?;
        self.add(id)
    }

    fn add(&mut self, id: u32) -> Option<u32> {
        if self.list.len() >= MAX_STREAMS {
            return None;
        }
        self.list.push(NetStream { id, current: None });
        Some(id)
    }

    pub(super) fn get(&self, id: u32) -> Option<&NetStream> {
        self.list.iter().find(|stream| stream.id == id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut NetStream> {
        self.list.iter_mut().find(|stream| stream.id == id)
    }

    /// The stream a publish or play on `message_stream_id` means. Clients that did not create it,
    /// or send the command on id 0, get their only stream, or one as if they had created it.
    pub(super) fn resolve(&mut self, message_stream_id: u32) -> Option<u32> {
        if message_stream_id != 0 {
            let known = self.get(message_stream_id).map(|stream| stream.id);
            return known.or_else(|| self.add(message_stream_id));
        }
        match self.list.as_slice() {
            [] => self.create(),
            [only] => Some(only.id),
            many => many
                .iter()
                .find(|stream| stream.current.is_none())
                .map(|stream| stream.id),
        }
    }

    /// The stream a command about an existing stream means; id 0 means the only one there is.
    pub(super) fn existing(&self, message_stream_id: u32) -> Option<&NetStream> {
        match self.list.as_slice() {
            [only] if message_stream_id == 0 => Some(only),
            _ => self.get(message_stream_id),
        }
    }

    pub(super) fn delete(&mut self, id: u32) -> Option<Purpose> {
        let index = self.list.iter().position(|stream| stream.id == id)?;
        self.list.swap_remove(index).release()
    }

    /// Starts a use of stream `id`, which must be free.
    pub(super) fn begin(
        &mut self,
        id: u32,
        purpose: Purpose,
        name: &str,
        reply_to: u32,
    ) -> Option<RequestId> {
        let request = RequestId(self.requests);
        let stream = self.get_mut(id)?;
        stream.current = Some(Use {
            purpose,
            request,
            name: name.to_owned(),
            reply_to,
            accepted: false,
            wishes: Wishes::default(),
        });
        self.requests = self.requests.wrapping_add(1);
        Some(request)
    }

    /// The stream that waits for an answer to `request`.
    pub(super) fn open_request(&mut self, request: RequestId, purpose: Purpose) -> Option<&mut NetStream> {
        self.list.iter_mut().find(|stream| {
            stream.current.as_ref().is_some_and(|current| {
                current.request == request && current.purpose == purpose && !current.accepted
            })
        })
    }

    /// The one stream used for `purpose`, accepted or not.
    pub(super) fn current(&self, purpose: Purpose) -> Option<&NetStream> {
        self.list.iter().find(|stream| stream.purpose() == Some(purpose))
    }

    pub(super) fn current_mut(&mut self, purpose: Purpose) -> Option<&mut NetStream> {
        self.list
            .iter_mut()
            .find(|stream| stream.purpose() == Some(purpose))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_start_at_one_and_deleted_ones_are_used_again() {
        let mut streams = Streams::default();
        assert_eq!([streams.create(), streams.create()], [Some(1), Some(2)]);
        streams.delete(1);
        assert_eq!(streams.create(), Some(1));
    }

    #[test]
    fn the_number_of_streams_is_bounded_however_they_come_to_be() {
        let mut streams = Streams::default();
        for id in 100..108 {
            assert_eq!(streams.resolve(id), Some(id));
        }
        assert_eq!(streams.resolve(999), None);
        assert_eq!(streams.create(), None);
        assert_eq!(streams.resolve(0), Some(100));
    }

    #[test]
    fn stream_0_means_the_only_stream_or_a_new_one() {
        let mut streams = Streams::default();
        assert_eq!(streams.resolve(0), Some(1));
        assert_eq!(streams.resolve(0), Some(1));
    }

    #[test]
    fn a_request_is_open_until_it_is_accepted_or_released() {
        let mut streams = Streams::default();
        streams.create();
        let first = streams.begin(1, Purpose::Publish, "a", 1).expect("request");
        assert!(streams.open_request(first, Purpose::Play).is_none());
        streams
            .open_request(first, Purpose::Publish)
            .expect("open")
            .accept();
        assert!(streams.open_request(first, Purpose::Publish).is_none());
        let second = streams.begin(1, Purpose::Publish, "a", 1).expect("request");
        assert_ne!(first, second);
        assert!(streams.open_request(first, Purpose::Publish).is_none());
    }
}

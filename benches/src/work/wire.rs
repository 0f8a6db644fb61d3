//! [`Published`]: an RTMP publisher and its server session without a socket between them.

use super::{Material, Message};
use spillway_flv::TagType;
use spillway_rtmp::session::{
    ClientEvent, ClientMode, ClientOptions, ClientSession, MediaKind, ServerEvent, ServerOptions,
    ServerSession,
};

/// A dialogue that takes more turns than this will never end.
const MAX_TURNS: usize = 100;

/// Both ends of an accepted publish. What the server must still answer is up to the caller.
pub struct Published {
    /// The publisher.
    pub client: ClientSession,
    /// The session in the server.
    pub server: ServerSession,
}

impl std::fmt::Debug for Published {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Published").finish_non_exhaustive()
    }
}

impl Published {
    /// Leads the dialogue up to the accepted publish.
    pub fn new() -> Self {
        let mut client =
            ClientSession::new(ClientOptions::new("127.0.0.1", "live", "a", ClientMode::Publish));
        let mut server = ServerSession::new(ServerOptions::default());
        for _ in 0..MAX_TURNS {
            let to_server = client.output().split();
            let mut input = to_server.as_ref();
            while let Some(event) = server.read(&mut input).expect("a valid dialogue") {
                if let ServerEvent::PublishRequested { request, .. } = event {
                    server.accept_publish(request).expect("room for the answer");
                }
            }
            let to_client = server.output().split();
            let mut input = to_client.as_ref();
            while let Some(event) = client.read(&mut input).expect("a valid dialogue") {
                if event == ClientEvent::Ready {
                    return Self { client, server };
                }
            }
        }
        panic!("the dialogue does not end")
    }
}

impl Default for Published {
    fn default() -> Self {
        Self::new()
    }
}

/// A pass of messages as bytes, one arrival for each.
#[derive(Debug, Clone)]
pub struct Wire {
    /// In order.
    pub arrivals: Vec<Vec<u8>>,
}

/// What the client sends for these messages.
pub fn wire<'a>(client: &mut ClientSession, messages: impl IntoIterator<Item = &'a Message>) -> Wire {
    let arrivals = messages.into_iter().map(|message| {
        let kind = match message.kind {
            TagType::Audio => MediaKind::Audio,
            TagType::Video => MediaKind::Video,
            TagType::Script => MediaKind::Data,
        };
        client
            .write_media(kind, message.timestamp_ms, &message.body)
            .expect("the client publishes");
        client.output().split().to_vec()
    });
    Wire {
        arrivals: arrivals.collect(),
    }
}

impl Material {
    /// The sequence headers and the messages as `client` sends them.
    pub fn wires(&self, client: &mut ClientSession) -> [Wire; 2] {
        [wire(client, &Self::headers()), wire(client, &self.messages)]
    }
}

/// The tag type of a media message; `None` for data in AMF3.
pub(super) fn tag_type(kind: MediaKind) -> Option<TagType> {
    match kind {
        MediaKind::Audio => Some(TagType::Audio),
        MediaKind::Video => Some(TagType::Video),
        MediaKind::Data => Some(TagType::Script),
        MediaKind::DataAmf3 => None,
    }
}

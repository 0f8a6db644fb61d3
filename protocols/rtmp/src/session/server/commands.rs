//! What the server does at each of the client's commands.

use super::streams::{NetStream, Purpose, Wish};
use super::{ConnectInfo, ServerEvent, ServerSession, SessionError};
use crate::command::status::{Level, code, on_status};
use crate::command::{Command, Connect, Request, reply};
use crate::message::{self, LimitType, UserControl, type_id};
use crate::name::{StreamPath, without_query_and_prefix};
use spillway_amf::Value;

type Outcome = Result<Option<ServerEvent>, SessionError>;

impl ServerSession {
    pub(super) fn command(&mut self, message_stream_id: u32, command: &Command) -> Outcome {
        let transaction_id = command.transaction_id;
        match Request::from_command(command) {
            Request::Connect => self.connect(command),
            Request::CreateStream => self.create_stream(transaction_id),
            Request::ReleaseStream | Request::Unknown => {
                self.result(message_stream_id, transaction_id, Value::Null)
            }
            Request::GetStreamLength => self.result(message_stream_id, transaction_id, Value::Number(0.0)),
            Request::FcPublish(name) => {
                self.result(message_stream_id, transaction_id, Value::Null)?;
                self.link
                    .command(message_stream_id, &reply::on_fc_publish(transaction_id, name))?;
                Ok(None)
            }
            Request::FcSubscribe(name) => {
                self.result(message_stream_id, transaction_id, Value::Null)?;
                self.link
                    .command(message_stream_id, &reply::on_fc_subscribe(name))?;
                Ok(None)
            }
            Request::FcUnpublish(name) => self.fc_unpublish(message_stream_id, transaction_id, name),
            Request::Publish(name) => self.begin(Purpose::Publish, message_stream_id, name),
            Request::Play(name) => self.begin(Purpose::Play, message_stream_id, name),
            Request::CloseStream => self.close_stream(message_stream_id),
            Request::DeleteStream(id) => Ok(self.delete_stream(id.unwrap_or(message_stream_id))),
            Request::Pause(paused) => self.wish(Wish::Paused(paused)),
            Request::Seek => self.seek(),
            Request::ReceiveAudio(wanted) => self.wish(Wish::Audio(wanted)),
            Request::ReceiveVideo(wanted) => self.wish(Wish::Video(wanted)),
            Request::Answer => Ok(None),
        }
    }

    /// Answers a call, unless it asked for no answer: some servers and clients hang up on a result
    /// they did not ask for.
    fn result(&mut self, message_stream_id: u32, transaction_id: f64, value: Value) -> Outcome {
        if transaction_id != 0.0 {
            self.link
                .command(message_stream_id, &reply::result(transaction_id, value))?;
        }
        Ok(None)
    }

    fn connect(&mut self, command: &Command) -> Outcome {
        if self.connect.is_some() {
            return Err(SessionError::PeerConnectedTwice);
        }
        let connect = Connect::from_command(command);
        let info = ConnectInfo {
            app: connect.app.clone(),
            tc_url: connect.tc_url.clone(),
            flash_version: connect.flash_version.clone(),
            enhanced: connect.capabilities.enhanced,
            reconnect: connect.capabilities.reconnect(),
        };
        self.connect = Some(connect);

        let window = message::window_ack_size(self.options.window_ack_bytes);
        self.link.control(type_id::WINDOW_ACK_SIZE, &window)?;
        let bandwidth = message::set_peer_bandwidth(self.options.peer_bandwidth, LimitType::Dynamic);
        self.link.control(type_id::SET_PEER_BANDWIDTH, &bandwidth)?;
        self.link.announce_chunk_size()?;
        self.link
            .command(0, &reply::connect_result(command.transaction_id))?;
        Ok(Some(ServerEvent::Connected(info)))
    }

    fn create_stream(&mut self, transaction_id: f64) -> Outcome {
        let answer = match self.streams.create() {
            Some(id) => reply::create_stream_result(transaction_id, id),
            None => reply::error(
                transaction_id,
                code::CALL_FAILED,
                "This connection has as many streams as it may have; delete one first.",
            ),
        };
        self.link.command(0, &answer)?;
        Ok(None)
    }

    /// A publish or a play. The same request on a stream that is busy with one restarts it; a
    /// second one beside the first is refused, and so is a publish while playing and a play while
    /// publishing.
    fn begin(&mut self, purpose: Purpose, message_stream_id: u32, name: &str) -> Outcome {
        let command = if purpose == Purpose::Publish {
            "publish"
        } else {
            "play"
        };
        let connect = self
            .connect
            .as_ref()
            .ok_or(SessionError::PeerNotConnected { command })?;
        let path = StreamPath::new(&connect.app, &connect.tc_url, name);

        if let Some((code, description)) = self.other_use(purpose) {
            return self.refuse_at_once(code, message_stream_id, description);
        }
        let code = match purpose {
            Purpose::Publish => code::PUBLISH_BAD_NAME,
            Purpose::Play => code::PLAY_FAILED,
        };
        let Some(id) = self.streams.resolve(message_stream_id) else {
            let description = "No stream is free for this; create one, or delete one first.";
            return self.refuse_at_once(code, message_stream_id, description);
        };
        let before = self
            .streams
            .current(purpose)
            .map(|stream| (stream.id, stream.name() == name));
        let ended = match before {
            Some((before_id, same_name)) if before_id == id || same_name => self.release(before_id),
            Some(_) => {
                let description =
                    "This connection already has one; open a second connection for this stream.";
                return self.refuse_at_once(code, message_stream_id, description);
            }
            None => None,
        };

        let request = self.streams.begin(id, purpose, name, message_stream_id);
        self.fit_allowance();
        let requested = request.map(|request| match purpose {
            Purpose::Publish => ServerEvent::PublishRequested {
                request,
                stream: path,
            },
            Purpose::Play => ServerEvent::PlayRequested {
                request,
                stream: path,
            },
        });
        if ended.is_some() {
            self.following_event = requested;
            return Ok(ended);
        }
        Ok(requested)
    }

    /// Why a publish or a play has to wait: the connection does the other.
    fn other_use(&self, purpose: Purpose) -> Option<(&'static str, &'static str)> {
        let (other, code, description) = match purpose {
            Purpose::Publish => (
                Purpose::Play,
                code::PUBLISH_DENIED,
                "This connection plays a stream; stop playing first, or publish on a second connection.",
            ),
            Purpose::Play => (
                Purpose::Publish,
                code::PLAY_FAILED,
                "This connection publishes a stream; stop publishing first, or play on a second connection.",
            ),
        };
        self.streams.current(other).map(|_| (code, description))
    }

    fn refuse_at_once(&mut self, code: &str, message_stream_id: u32, description: &str) -> Outcome {
        self.link
            .command(message_stream_id, &on_status(Level::Error, code, description))?;
        Ok(None)
    }

    /// Ends what a stream does and says what that was.
    fn release(&mut self, id: u32) -> Option<ServerEvent> {
        let ended = self.streams.get_mut(id)?.release();
        self.ended(ended)
    }

    fn ended(&mut self, purpose: Option<Purpose>) -> Option<ServerEvent> {
        match purpose? {
            Purpose::Publish => {
                self.held.clear();
                self.fit_allowance();
                Some(ServerEvent::PublishEnded)
            }
            Purpose::Play => Some(ServerEvent::PlayEnded),
        }
    }

    fn fc_unpublish(&mut self, message_stream_id: u32, transaction_id: f64, name: &str) -> Outcome {
        self.result(message_stream_id, transaction_id, Value::Null)?;
        self.link
            .command(message_stream_id, &reply::on_fc_unpublish(transaction_id, name))?;
        let meant = without_query_and_prefix(name);
        let publish = self.streams.current(Purpose::Publish);
        let Some(id) = publish
            .filter(|stream| meant.is_empty() || without_query_and_prefix(stream.name()) == meant)
            .map(|stream| stream.id)
        else {
            return Ok(None);
        };
        self.unpublish(id)
    }

    /// Ends a publish as the client asked and confirms it.
    fn unpublish(&mut self, id: u32) -> Outcome {
        let reply_to = self.streams.get(id).map_or(id, NetStream::reply_to);
        let ended = self.release(id);
        let status = on_status(Level::Status, code::UNPUBLISH_SUCCESS, "Publishing has stopped.");
        self.link.command(reply_to, &status)?;
        Ok(ended)
    }

    /// The stream stays and can be used again: Flash players close and play in turns.
    fn close_stream(&mut self, message_stream_id: u32) -> Outcome {
        let Some(stream) = self.streams.existing(message_stream_id) else {
            return Ok(None);
        };
        let id = stream.id;
        match stream.purpose() {
            Some(Purpose::Publish) => self.unpublish(id),
            Some(Purpose::Play) => Ok(self.release(id)),
            None => Ok(None),
        }
    }

    fn delete_stream(&mut self, id: u32) -> Option<ServerEvent> {
        let id = self.streams.existing(id)?.id;
        let ended = self.streams.delete(id);
        self.ended(ended)
    }

    /// The accepted play, as its id and where to answer.
    fn playing(&self) -> Option<(u32, u32)> {
        let stream = self
            .streams
            .current(Purpose::Play)
            .filter(|stream| stream.is_accepted())?;
        Some((stream.id, stream.reply_to()))
    }

    /// Carries out what a player wishes, or remembers it if its play waits for acceptance.
    fn wish(&mut self, wish: Wish) -> Outcome {
        if let Some(waiting) = self
            .streams
            .current_mut(Purpose::Play)
            .filter(|stream| !stream.is_accepted())
        {
            waiting.remember(wish);
            return Ok(None);
        }
        match wish {
            Wish::Paused(paused) => self.pause(paused),
            Wish::Audio(wanted) => self.receive(wanted, ServerEvent::ReceiveAudio(wanted)),
            Wish::Video(wanted) => self.receive(wanted, ServerEvent::ReceiveVideo(wanted)),
        }
    }

    /// Carries out a wish that was remembered when the play has been accepted since.
    pub(super) fn next_wish(&mut self) -> Outcome {
        let player = self.streams.current_mut(Purpose::Play);
        match player.and_then(NetStream::take_wish) {
            Some(wish) => self.wish(wish),
            None => Ok(None),
        }
    }

    fn pause(&mut self, paused: bool) -> Outcome {
        let Some((id, reply_to)) = self.playing() else {
            return Ok(None);
        };
        let (control, status) = if paused {
            let status = on_status(Level::Status, code::PAUSE_NOTIFY, "Playback is paused.");
            (UserControl::StreamEof(id), status)
        } else {
            let status = on_status(Level::Status, code::UNPAUSE_NOTIFY, "Playback goes on.");
            (UserControl::StreamBegin(id), status)
        };
        self.link.user_control(control)?;
        self.link.command(reply_to, &status)?;
        Ok(Some(ServerEvent::Paused(paused)))
    }

    /// There is nowhere to seek to in a live stream, but FFmpeg takes no more media until it is
    /// told that the seek is done.
    fn seek(&mut self) -> Outcome {
        if let Some((_, reply_to)) = self.playing() {
            let status = on_status(
                Level::Status,
                code::SEEK_NOTIFY,
                "Live: playback goes on at the live edge.",
            );
            self.link.command(reply_to, &status)?;
        }
        Ok(None)
    }

    /// Only a wish for media is answered (RTMP 1.0 §7.2.2.4).
    fn receive(&mut self, wanted: bool, event: ServerEvent) -> Outcome {
        let Some((_, reply_to)) = self.playing() else {
            return Ok(None);
        };
        if wanted {
            let seek = on_status(
                Level::Status,
                code::SEEK_NOTIFY,
                "Live: playback goes on at the live edge.",
            );
            self.link.command(reply_to, &seek)?;
            let start = on_status(Level::Status, code::PLAY_START, "Playback has started.");
            self.link.command(reply_to, &start)?;
        }
        Ok(Some(event))
    }
}

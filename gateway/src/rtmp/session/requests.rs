//! Requests to publish and to play: who is asked, and what comes of it.

use std::future::Future;
use std::pin::Pin;

use futures_util::FutureExt;
use spillway_access::{Action, Reason, Refusal};
use spillway_hub::{AttachError, EndReason, Limit, Protocol, StreamKey, Viewer};
use spillway_rtmp::command::status::code;
use spillway_rtmp::name::StreamPath;
use spillway_rtmp::session::server::{ConnectInfo, PlayRefusal, PublishRefusal, RequestId};
use spillway_web::{Gatekeeper, Lease, Pass, Visit};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::super::exit::Exit;
use super::super::player::Player;
use super::{Connection, NEVER, State};

/// A publisher's request, on its way to a decision.
pub(super) type Asking = Pin<Box<dyn Future<Output = Result<Pass, Refusal>> + Send>>;
/// A player's request, on its way to a decision and then to the stream.
pub(super) type Attaching = Pin<Box<dyn Future<Output = Result<(Viewer, Pass), NoPlay>> + Send>>;

/// What is being found out about a client.
pub(super) type Connecting = AbortOnDropHandle<Result<(), Refusal>>;

/// Why there is nothing to play.
pub(super) enum NoPlay {
    Denied(Refusal),
    NotAttached(AttachError),
}

/// What was granted to the publisher or player.
#[derive(Default)]
pub(super) struct Stay {
    /// When it ends.
    pub(super) until: Option<Instant>,
    /// Dropped at the end, which tells whoever granted it.
    lease: Option<Box<dyn Lease>>,
}

impl Stay {
    /// Over for this reason.
    pub(super) fn end(self, reason: EndReason) {
        if let Some(lease) = self.lease {
            lease.ends(reason);
        }
    }
}

impl From<Pass> for Stay {
    fn from(pass: Pass) -> Self {
        Self {
            until: pass
                .grant
                .lifetime
                .map(|lifetime| Instant::now() + lifetime.min(NEVER)),
            lease: pass.lease,
        }
    }
}

/// Waits for what the hook says of the client, if it is being asked.
async fn connected(connecting: Option<Connecting>) -> Result<(), Refusal> {
    match connecting {
        // A task that panicked has decided nothing.
        Some(connecting) => connecting.await.unwrap_or_else(|_| {
            let text = "the server failed to decide on this connection; connect again";
            Err(Refusal::new(Reason::HookFailed, text))
        }),
        None => Ok(()),
    }
}

fn reason_of(error: AttachError) -> EndReason {
    match error {
        AttachError::NotFound => EndReason::NotFound,
        _ => EndReason::Refused,
    }
}

impl Connection {
    /// Has the hook asked about the client while it goes on; whoever is refused hears of it when it wants something.
    pub(super) fn connect(&mut self, connect: &ConnectInfo) {
        self.info.enhanced = connect.enhanced;
        if !self.rtmp.gate.asks_of_clients() {
            return;
        }
        let (gate, session) = (self.rtmp.gate.clone(), self.info);
        let app = StreamPath::new(&connect.app, &connect.tc_url, "");
        self.connecting = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            gate.connect(session, &app).await
        })));
    }

    pub(super) fn publish(&mut self, request: RequestId, stream: &StreamPath) -> Result<(), Exit> {
        let key = match StreamKey::parse(&stream.path) {
            Ok(key) => key,
            Err(error) => return self.refuse_publish(request, PublishRefusal::BadName, &error.to_string()),
        };
        let visit = self.visit(Action::Publish, &key, stream);
        let gate = self.rtmp.gate.clone();
        let connecting = self.connecting.take();
        let mut asking: Asking = Box::pin(async move {
            connected(connecting).await?;
            gate.decide(&visit).await
        });
        // Most decisions wait for nothing, and then neither does the publisher.
        let decided = asking.as_mut().now_or_never();
        let state = State::Asking {
            request,
            stream: key,
            asking,
        };
        self.change_state(state, EndReason::Client);
        decided.map_or(Ok(()), |decision| self.decided(decision))
    }

    fn visit(&self, action: Action, key: &StreamKey, stream: &StreamPath) -> Visit {
        Visit {
            action,
            session: self.info,
            local: self.client.is_local(),
            stream: key.clone(),
            params: stream.params.clone().into(),
        }
    }

    pub(super) fn decided(&mut self, decision: Result<Pass, Refusal>) -> Result<(), Exit> {
        let State::Asking { request, stream, .. } = &self.state else {
            return Ok(());
        };
        let (request, asked) = (*request, stream.clone());
        let pass = match decision {
            Ok(pass) => pass,
            Err(refusal) => {
                self.rtmp.hub.stats().refused(Limit::Auth);
                return self.turn_publisher_away(request, PublishRefusal::Denied, &refusal.text);
            }
        };
        let public = pass.stream.clone().unwrap_or(asked);
        match self.rtmp.hub.publish(public, self.info) {
            Ok(publisher) => {
                if !self.session.accept_publish(request)? {
                    return Ok(()); // withdrawn meanwhile
                }
                publisher.set_terms(pass.terms);
                let lost = Box::pin(publisher.lost().cancelled_owned());
                let state = State::Publishing {
                    publisher,
                    lost,
                    since: Instant::now(),
                };
                self.change_state(state, EndReason::Client);
                self.stay = pass.into();
                self.take_what_waited()
            }
            Err(error) => {
                pass.end(EndReason::Refused);
                self.refuse_publish(request, PublishRefusal::Denied, &error.to_string())
            }
        }
    }

    /// What the peer said while it waited.
    fn take_what_waited(&mut self) -> Result<(), Exit> {
        while let Some(event) = self.session.read(&mut &[][..])? {
            self.event(event)?;
        }
        Ok(())
    }

    fn refuse_publish(
        &mut self,
        request: RequestId,
        refusal: PublishRefusal,
        text: &str,
    ) -> Result<(), Exit> {
        if let Some(left_out) = self.rtmp.log_budget.take() {
            tracing::warn!(session = %self.info.id, peer = %self.info.peer, reason = text, left_out, "publisher refused");
        }
        self.turn_publisher_away(request, refusal, text)
    }

    fn turn_publisher_away(
        &mut self,
        request: RequestId,
        refusal: PublishRefusal,
        text: &str,
    ) -> Result<(), Exit> {
        self.rtmp.hub.stats().publisher_ended(EndReason::Refused);
        self.session.refuse_publish(request, refusal, text)?;
        self.close_with(EndReason::Refused);
        Ok(())
    }

    pub(super) fn play(&mut self, request: RequestId, stream: &StreamPath) -> Result<(), Exit> {
        match StreamKey::parse(&stream.path) {
            Ok(key) => {
                let visit = self.visit(Action::Play, &key, stream);
                let rtmp = self.rtmp.clone();
                let connecting = self.connecting.take();
                let attaching: Attaching = Box::pin(async move {
                    connected(connecting).await.map_err(NoPlay::Denied)?;
                    let pass = rtmp.gate.decide(&visit).await.map_err(NoPlay::Denied)?;
                    match rtmp.hub.attach(&visit.stream, visit.session).await {
                        Ok(viewer) => Ok((viewer, pass)),
                        Err(error) => {
                            pass.end(reason_of(error));
                            Err(NoPlay::NotAttached(error))
                        }
                    }
                });
                self.change_state(State::Attaching { request, attaching }, EndReason::Client);
                Ok(())
            }
            Err(error) => self.refuse_play(
                request,
                PlayRefusal::StreamNotFound,
                EndReason::Refused,
                &error.to_string(),
            ),
        }
    }

    fn refuse_play(
        &mut self,
        request: RequestId,
        refusal: PlayRefusal,
        reason: EndReason,
        text: &str,
    ) -> Result<(), Exit> {
        if let Some(left_out) = self.rtmp.log_budget.take() {
            tracing::info!(session = %self.info.id, peer = %self.info.peer, reason = text, left_out, "viewer refused");
        }
        self.turn_player_away(request, refusal, reason, text)
    }

    fn turn_player_away(
        &mut self,
        request: RequestId,
        refusal: PlayRefusal,
        reason: EndReason,
        text: &str,
    ) -> Result<(), Exit> {
        self.rtmp.hub.stats().viewer_ended(Protocol::Rtmp, reason);
        self.session.refuse_play(request, refusal, text)?;
        self.close_with(reason);
        Ok(())
    }

    pub(super) fn attached(&mut self, result: Result<(Viewer, Pass), NoPlay>) -> Result<(), Exit> {
        let State::Attaching { request, .. } = &self.state else {
            return Ok(());
        };
        let request = *request;
        let error = match result {
            Ok((viewer, pass)) => {
                if !self.session.accept_play(request)? {
                    return Ok(()); // withdrawn meanwhile
                }
                self.change_state(State::Playing(Player::new(viewer)), EndReason::Client);
                self.stay = pass.into();
                return self.take_what_waited();
            }
            Err(NoPlay::Denied(refusal)) => {
                self.rtmp.hub.stats().refused(Limit::Auth);
                let (status, reason) = (PlayRefusal::Failed, EndReason::Refused);
                return self.turn_player_away(request, status, reason, &refusal.text);
            }
            Err(NoPlay::NotAttached(error)) => error,
        };
        match error {
            AttachError::NotFound => {
                let text = "nobody publishes this stream; start the publisher or check the name";
                self.refuse_play(request, PlayRefusal::StreamNotFound, EndReason::NotFound, text)
            }
            error => self.refuse_play(
                request,
                PlayRefusal::Failed,
                EndReason::Refused,
                &error.to_string(),
            ),
        }
    }

    /// The time that was granted is over.
    pub(super) fn stay_over(&mut self) -> Result<(), Exit> {
        let text = "the time granted for this session is over; ask for a new token and connect again";
        match self.state {
            State::Publishing { .. } => self.session.end_publish(code::UNPUBLISH_SUCCESS, text)?,
            State::Playing(_) => self.session.end_play(text)?,
            _ => {}
        }
        self.close_with(EndReason::Expired);
        Ok(())
    }
}

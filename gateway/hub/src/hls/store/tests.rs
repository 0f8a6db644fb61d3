use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use spillway_flv::tag::TagType;

use super::*;
use crate::options::HubOptions;
use crate::per_ip::PerIp;
use crate::session::{Protocol, SessionInfo};
use crate::writer::Arrival;

const AVC_HEADER: &[u8] = &[
    0x17, 0, 0, 0, 0, 1, 0x64, 0x00, 0x1E, 0xFF, 0xE1, 0, 24, 0x67, 0x64, 0x00, 0x1E, 0xAC, 0xD9, 0x40, 0xA0,
    0x3D, 0xA1, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x32, 0x0F, 0x16, 0x2D, 0x96, 1, 0, 6,
    0x68, 0xEB, 0xE3, 0xCB, 0x22, 0xC0,
];

fn key() -> StreamKey {
    StreamKey::parse("live/a").unwrap()
}

fn info() -> SessionInfo {
    SessionInfo::new(Protocol::Rtmp, SocketAddr::from(([127, 0, 0, 1], 9)))
}

/// The header and 6 s of pictures, a key frame each second.
fn messages() -> impl Iterator<Item = (u32, Vec<u8>)> {
    let pictures = (0..150_u32).map(|n| {
        let (first, nal) = if n % 25 == 0 { (0x17, 0x65) } else { (0x27, 0x41) };
        (n * 40, vec![first, 1, 0, 0, 0, 0, 0, 0, 2, nal, 0x55])
    });
    std::iter::once((0, AVC_HEADER.to_vec()))
        .chain(pictures)
        .map(|(at, body)| (at, [&[0; 11], &body[..]].concat()))
}

async fn until(what: impl Fn() -> bool) {
    for _ in 0..1000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not come to that");
}

fn playlist(entry: &Entry) -> String {
    let view = entry.view.load();
    let text = view.as_ref().map(|view| view.media.text.to_vec());
    String::from_utf8(text.unwrap_or_default()).unwrap()
}

#[tokio::test]
async fn a_packager_whose_stream_has_a_live_successor_goes_on_with_it() {
    let hub = Hub::new(HubOptions::default());
    // The packager still reads the old stream when the registry has the new one already.
    let options = Arc::new(hub.options().clone());
    let old = Arc::new(Stream::new(key(), options, Arc::default()));
    let place = PerIp::default().take(info().peer.ip()).unwrap();
    let (epoch, _) = old.take_over(info(), place);
    for (at, message) in messages() {
        old.push(epoch, TagType::Video, at, message, Arrival::now())
            .unwrap();
    }
    let entry = hub.hls().start(&hub, &old).unwrap();
    until(|| playlist(&entry).matches(".ts").count() >= 2).await;
    let before = playlist(&entry);
    let mut changed = entry.changed.subscribe();
    let seen = tokio::spawn({
        let entry = entry.clone();
        async move {
            let mut ended = false;
            while changed.changed().await.is_ok() {
                ended |= playlist(&entry).contains("#EXT-X-ENDLIST");
                if playlist(&entry).matches(".ts").count() >= 5 {
                    break;
                }
            }
            ended
        }
    });
    let mut publisher = hub.publish(key(), info()).unwrap();
    old.close(Phase::Ended);
    tokio::task::yield_now().await;
    for (at, message) in messages() {
        publisher.push(TagType::Video, at, message).unwrap();
        tokio::task::yield_now().await;
    }
    until(|| playlist(&entry).matches(".ts").count() >= 5).await;
    assert!(!seen.await.unwrap(), "the playlist was ended in between");
    let after = playlist(&entry);
    let first = before.lines().find(|line| line.ends_with(".ts")).unwrap();
    assert!(after.contains(first), "{before}\n{after}");
    assert_eq!(after.matches("#EXT-X-DISCONTINUITY\n").count(), 1, "{after}");
}

#[tokio::test]
async fn a_packager_never_starts_on_an_entry_that_is_forgotten() {
    let hub = Hub::new(HubOptions::default());
    let publisher = hub.publish(key(), info()).unwrap();
    let stream = publisher.stream().clone();
    let done = Arc::new(AtomicBool::new(false));
    let forgetter = std::thread::spawn({
        let (hub, done) = (hub.clone(), done.clone());
        move || {
            while !done.load(Ordering::Relaxed) {
                hub.hls().forget(&key());
            }
        }
    });
    let store = hub.hls();
    let mut orphans = 0;
    for _ in 0..20_000 {
        let (entry, output) = store.take(&hub, stream.key()).unwrap();
        let mut output = output.expect("nobody else takes it");
        let known = store
            .entry(&key())
            .is_some_and(|known| Arc::ptr_eq(&known, &entry));
        orphans += u32::from(!known);
        entry.end(&mut output);
        entry.rest(output);
    }
    done.store(true, Ordering::Relaxed);
    forgetter.join().unwrap();
    assert_eq!(orphans, 0);
}

#[tokio::test]
async fn after_a_packager_that_panicked_the_next_request_gets_a_new_one_with_higher_numbers() {
    let hub = Hub::new(HubOptions::default());
    let mut publisher = hub.publish(key(), info()).unwrap();
    for (at, message) in messages() {
        publisher.push(TagType::Video, at, message).unwrap();
    }
    let stream = publisher.stream().clone();
    let store = hub.hls();
    let (entry, output) = store.take(&hub, stream.key()).unwrap();
    let shown = Numbers {
        msn: entry.next_numbers().msn + 1000,
        dsn: entry.next_numbers().dsn + 1000,
    };
    *entry.next.lock() = shown;
    drop(output); // as a panic does
    store.abandon(&entry);
    let next = store.start(&hub, &stream).unwrap();
    assert!(!Arc::ptr_eq(&entry, &next));
    assert_eq!(next.next_numbers(), shown);
    until(|| playlist(&next).contains(".ts")).await;
    store.abandon(&entry);
    assert!(
        Arc::ptr_eq(&store.entry(&key()).unwrap(), &next),
        "it is another's place"
    );
}

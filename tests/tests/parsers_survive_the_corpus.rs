//! The fuzz targets over their committed corpus, without a fuzzer: whole, cut short at many places, and with bytes
//! changed. `tests/fuzz` runs the same functions with one.

// The functions are public for the fuzz targets.
#[allow(unreachable_pub)]
#[path = "../fuzz/src/oracles.rs"]
mod oracles;

use std::path::Path;

/// Inputs are cut at each place up to here, further on at every 16th: keeps the test in seconds.
const CUT_EVERYWHERE: usize = 256;

fn each_seed(name: &str, mut run: impl FnMut(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut seeds = 0;
    for entry in entries {
        let path = entry.expect("a corpus file").path();
        let data = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        run(&data);
        seeds += 1;
    }
    assert!(seeds > 0, "{} is empty", folder.display());
}

fn each_target(mut run: impl FnMut(fn(&[u8]), &[u8])) {
    for (name, target) in oracles::TARGETS {
        each_seed(name, |data| run(target, data));
    }
}

#[test]
fn each_seed_whole_and_cut_short() {
    each_target(|target, data| {
        target(data);
        for cut in (0..data.len()).filter(|cut| *cut < CUT_EVERYWHERE || cut % 16 == 0) {
            target(&data[..cut]);
        }
    });
}

#[test]
fn each_seed_with_one_byte_changed() {
    each_target(|target, data| {
        let mut changed = data.to_vec();
        for at in (0..data.len()).filter(|at| *at < CUT_EVERYWHERE || at % 16 == 0) {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                changed[at] = value;
                target(&changed);
            }
            changed[at] = data[at];
        }
    });
}

#[test]
fn each_seed_split_at_every_size() {
    for name in ["chunk", "flv_file", "handshake", "server_session"] {
        let (_, target) = oracles::TARGETS
            .into_iter()
            .find(|(target, _)| *target == name)
            .expect("a target");
        let size_at = usize::from(name == "server_session");
        each_seed(name, |data| {
            let mut cut = data.to_vec();
            for size in (0..=64).chain([127, 128, 255]) {
                cut[size_at] = size;
                target(&cut);
            }
        });
    }
}

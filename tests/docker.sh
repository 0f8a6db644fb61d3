#!/usr/bin/env bash
# Proves Dockerfile and docker-compose.yml by really building and starting them: tests/run --docker
#
# Runs on a machine that reaches nothing but package registries, so it makes everything it needs: an engine of its own
# (dockerd, started by hand, thrown away at the end) and stand-ins for the base images, under the very names that the
# Dockerfile and the compose file use, from Debian's packages and this machine's Rust toolchain. With DOCKER_HOST set it
# uses that engine and its base images instead.
#
#   SPILLWAY_DOCKER_WORK  folder for the engine's data and the base images, kept for the next run
#                         (default /var/tmp/spillway-docker, about 4 GB)
#
# Needs root for debootstrap and dockerd.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
work=${SPILLWAY_DOCKER_WORK:-/var/tmp/spillway-docker}
project=spillway-docker-test
key=docker-test-key
rtmp_port=31935 bare_port=31936 http_port=38080 prometheus_port=39090
export SPILLWAY_PUBLISH_KEYS=$key SPILLWAY_RTMP_PORT=$rtmp_port SPILLWAY_HTTP_PORT=$http_port \
    SPILLWAY_PROMETHEUS_PORT=$prometheus_port
passed=0 failed=0 engine_pid='' publisher_pid=''

say() { printf '\n== %s\n' "$*"; }
ok() { printf 'ok   %s\n' "$*"; passed=$((passed + 1)); }
bad() { printf 'FAIL %s\n' "$*"; failed=$((failed + 1)); }
check() { # check WHAT COMMAND...: the command's exit code is the verdict
    local what=$1 output
    shift
    if output=$("$@" 2>&1); then ok "$what"; else bad "$what"; printf '%s\n' "$output" | tail -15 | sed 's/^/     /'; fi
}
eventually() { # eventually SECONDS COMMAND...: tries once a second
    local seconds=$1
    shift
    for ((i = 0; i < seconds; i++)); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 1
    done
    "$@"
}
compose() { docker-compose --project-name "$project" --project-directory "$root" --file "$root/docker-compose.yml" "$@"; }

cleanup() {
    local code=$?
    set +e
    [[ -n $publisher_pid ]] && kill "$publisher_pid" 2>/dev/null
    compose down --volumes --timeout 5 >/dev/null 2>&1
    if [[ -n $engine_pid ]]; then
        kill "$engine_pid" 2>/dev/null
        for ((i = 0; i < 20; i++)); do kill -0 "$engine_pid" 2>/dev/null || break; sleep 0.5; done
        umount /run/spillway-docker/netns/default 2>/dev/null
        rm -rf /run/spillway-docker
    fi
    exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# ---- What the test itself needs -------------------------------------------------------------------------------------

install_tools() {
    local -A package=([dockerd]=docker.io [docker-compose]=docker-compose [debootstrap]=debootstrap [iptables]=iptables
        [ffmpeg]=ffmpeg [curl]=curl [jq]=jq)
    local missing=()
    for tool in "${!package[@]}"; do command -v "$tool" >/dev/null || missing+=("${package[$tool]}"); done
    ((${#missing[@]} == 0)) && return
    say "Installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

start_engine() {
    if [[ -n ${DOCKER_HOST:-} ]]; then
        say "Using the engine at $DOCKER_HOST"
        docker info >/dev/null
        return
    fi
    say "Starting an engine of our own in $work"
    mkdir -p "$work"
    # Debian's engine brings no BuildKit front end of its own.
    export DOCKER_HOST=unix://$work/docker.sock DOCKER_BUILDKIT=0
    # /run is short: containerd's sockets must fit in 108 characters.
    dockerd --data-root "$work/data" --exec-root "/run/spillway-docker" --pidfile "$work/dockerd.pid" \
        --host "$DOCKER_HOST" >"$work/dockerd.log" 2>&1 &
    engine_pid=$!
    if ! eventually 30 docker info; then
        tail -20 "$work/dockerd.log"
        echo "dockerd did not start; its whole log is $work/dockerd.log" >&2
        exit 1
    fi
    docker info --format 'engine {{.ServerVersion}}, storage {{.Driver}}, cgroup v{{.CgroupVersion}}'
    make_base_images
}

# ---- Stand-ins for the base images ----------------------------------------------------------------------------------

have_image() { docker image inspect "$1" >/dev/null 2>&1; }

debian_root() { # debian_root FOLDER PACKAGES: a minimal Debian bookworm, without what the slim images leave out
    rm -rf "$1"
    debootstrap --variant=minbase ${2:+--include="$2"} bookworm "$1" http://deb.debian.org/debian >"$work/debootstrap.log" 2>&1 ||
        { tail -20 "$work/debootstrap.log"; return 1; }
    rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/usr/share/{doc,man,locale,info}/*
}

import_image() { # import_image FOLDER TAG CHANGES...
    local folder=$1 tag=$2 changes=()
    shift 2
    for change in "$@"; do changes+=(--change "$change"); done
    tar --directory "$folder" --create . | docker import "${changes[@]}" - "$tag" >/dev/null
    rm -rf "$folder"
    docker image inspect --format "made $tag ({{.Size}} bytes)" "$tag"
}

make_base_images() {
    local base=$work/base
    mkdir -p "$base"
    if ! have_image debian:bookworm-slim; then
        say "Making a stand-in for debian:bookworm-slim"
        debian_root "$base/slim" ""
        import_image "$base/slim" debian:bookworm-slim 'CMD ["bash"]'
    fi
    make_rust_image "$base/rust"
    make_prometheus_image "$base/prometheus"
}

# The toolchain of this machine in Debian, and on it, renewed with each Cargo.lock, the crates, so that the build needs no
# network.
make_rust_image() {
    local folder=$1 tag=rust:1-bookworm toolchain=spillway-test/rust lock sysroot
    sysroot=$(rustc --print sysroot)
    if ! have_image "$toolchain"; then
        say "Making a stand-in for $tag from this machine's toolchain: $(rustc --version)"
        debian_root "$folder" ca-certificates,gcc,g++,libc6-dev,make,pkg-config
        mkdir -p "$folder"/usr/local/{rust/lib/rustlib,rust/bin,cargo}
        cp -a "$sysroot"/bin/{cargo,rustc} "$folder/usr/local/rust/bin/"
        cp -a "$sysroot"/lib/*.so* "$folder/usr/local/rust/lib/"
        cp -a "$sysroot/lib/rustlib/x86_64-unknown-linux-gnu" "$folder/usr/local/rust/lib/rustlib/"
        import_image "$folder" "$toolchain" \
            'ENV PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
            'ENV CARGO_HOME=/usr/local/cargo' 'ENV CARGO_NET_OFFLINE=true' 'CMD ["bash"]'
    fi
    lock=$(sha256sum "$root/Cargo.lock" | cut -c1-16)
    if [[ $(docker image inspect --format '{{index .Config.Labels "lock"}}' "$tag" 2>/dev/null) == "$lock" ]]; then return; fi
    say "Adding the crates of Cargo.lock to it"
    (cd "$root" && cargo fetch --locked --quiet)
    rm -rf "$folder"
    mkdir -p "$folder/registry"
    cp -a "${CARGO_HOME:-$HOME/.cargo}"/registry/{cache,index} "$folder/registry/"
    printf 'FROM %s\nCOPY registry /usr/local/cargo/registry\nLABEL lock=%s\n' "$toolchain" "$lock" >"$folder/Dockerfile"
    docker build --quiet --tag "$tag" "$folder" >/dev/null
    rm -rf "$folder"
}

# Debian's Prometheus (an older version) in the place, and with the start command and user, of the real image.
make_prometheus_image() {
    local folder=$1 tag
    tag=$(sed -n 's/^ *image: \(prom\/prometheus:.*\)$/\1/p' "$root/docker-compose.yml")
    have_image "$tag" && return
    say "Making a stand-in for $tag from Debian's package"
    debian_root "$folder" ""
    mkdir -p "$work/deb"
    (cd "$work/deb" && rm -rf ./* && apt-get update -qq && apt-get -o APT::Sandbox::User=root download -qq prometheus)
    dpkg-deb --extract "$work"/deb/prometheus_*.deb "$work/deb/root"
    install -m 755 "$work/deb/root/usr/bin/prometheus" "$folder/bin/prometheus"
    mkdir -p "$folder/prometheus" "$folder/etc/prometheus"
    chown 65534:65534 "$folder/prometheus"
    import_image "$folder" "$tag" 'USER nobody' 'WORKDIR /prometheus' 'VOLUME /prometheus' 'ENTRYPOINT ["/bin/prometheus"]' \
        'CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]'
}

# ---- The tests --------------------------------------------------------------------------------------------------------

container() { compose ps -q "$1"; }
inspect() { docker inspect --format "$2" "$(container "$1")"; }
is() { [[ $1 == "$2" ]] || { echo "expected $2, found $1"; return 1; }; }
health_is() { is "$(inspect gateway '{{.State.Health.Status}}')" "$1"; }

publish() { # publish URL SECONDS
    ffmpeg -nostdin -hide_banner -loglevel error -re \
        -f lavfi -i testsrc2=size=640x360:rate=25 -f lavfi -i sine=frequency=440:sample_rate=44100 -t "$2" \
        -c:v libx264 -preset ultrafast -tune zerolatency -g 50 -pix_fmt yuv420p -c:a aac -f flv "$1"
}

plays() { # plays URL: at least 25 pictures and some sound can be decoded
    local frames
    frames=$(timeout 40 ffmpeg -nostdin -hide_banner -loglevel error -rw_timeout 20000000 -i "$1" -map 0:v -map 0:a -t 3 \
        -f framecrc - | grep -c '^0,' || true)
    ((frames >= 25)) || { echo "decoded $frames pictures of $1"; return 1; }
}

refused_without_key() {
    if publish "rtmp://127.0.0.1:$rtmp_port/live/stranger" 2; then echo "it was accepted"; return 1; fi
    compose logs --no-color gateway | grep 'publisher refused.*?key=' || { compose logs --no-color gateway; return 1; }
}

refused_by_default() {
    local container log
    container=$(docker run --detach --publish "127.0.0.1:$bare_port:1935" spillway)
    eventually 20 bash -c "docker logs $container 2>&1 | grep -q ready"
    publish "rtmp://127.0.0.1:$bare_port/live/stranger" 2 && echo "it was accepted"
    log=$(docker logs "$container" 2>&1)
    docker rm --force "$container" >/dev/null
    grep 'publisher refused.*auth\.publish' <<<"$log" || { echo "$log"; return 1; }
}

target_up() {
    curl -fsS "http://127.0.0.1:$prometheus_port/api/v1/targets" |
        jq -e '.data.activeTargets[] | select(.labels.job == "spillway" and .health == "up")'
}

series_known() {
    curl -fsSG "http://127.0.0.1:$prometheus_port/api/v1/query" --data-urlencode 'query=count({__name__=~"spillway_.+"})' |
        jq -e '(.data.result[0].value[1] | tonumber) > 5'
}

admin_is_private() { is "$(docker port "$(container gateway)" | grep -c '^8081' || true)" 0; }

root_is_read_only() { ! docker exec "$(container gateway)" sh -c 'echo x > /tmp/x' 2>/dev/null; }

no_privileges() {
    local status
    status=$(docker exec "$(container gateway)" cat /proc/1/status)
    grep -qE '^NoNewPrivs:\s+1$' <<<"$status" && grep -qE '^CapBnd:\s+0+$' <<<"$status" ||
        { grep -E '^(Cap|NoNew)' <<<"$status"; return 1; }
}

effective_user() { is "$(docker exec "$(container gateway)" id -u)" 10001; }

one_worker_for_half_a_processor() {
    local log
    log=$(timeout --preserve-status -s TERM 5 docker run --rm --init --cpus 0.5 spillway 2>&1 || true)
    grep -E 'workers.{0,12}1\b' <<<"$log" || { echo "$log"; return 1; }
}

wrong_variable_is_named() {
    local log
    if log=$(docker run --rm --env SPILLWAY__HLS__WINDW=8 spillway 2>&1); then echo "it started"; return 1; fi
    grep -q 'SPILLWAY__HLS__WINDW.*did you mean `hls.window`' <<<"$log" || { echo "$log"; return 1; }
}

run_tests() {
    say "Building the image"
    if ! docker build --tag spillway "$root" >"$work/build.log" 2>&1; then
        tail -30 "$work/build.log"
        bad "docker build"
        return
    fi
    ok "docker build: $(docker image inspect --format '{{.Size}}' spillway) bytes, of which" \
        "$(docker image inspect --format '{{.Size}}' debian:bookworm-slim) are the base"
    check "the image runs as no root" is "$(docker image inspect --format '{{.Config.User}}' spillway)" 10001:10001
    check "the binary says its version" docker run --rm spillway --version
    check "a wrong variable stops the start and is named" wrong_variable_is_named
    check "without any key set nobody publishes from outside, and the log says what to set" refused_by_default
    check "half a processor gets one worker" one_worker_for_half_a_processor

    say "Starting the compose file"
    compose config --quiet
    compose up --detach --no-build gateway prometheus >"$work/up.log" 2>&1 || { cat "$work/up.log"; bad "compose up"; return; }
    check "the gateway becomes healthy" eventually 60 health_is healthy
    check "it runs as user 10001" effective_user
    check "its file system is read-only" root_is_read_only
    check "it has no capabilities and can get none" no_privileges
    check "the admin listener is not published to the host" admin_is_private
    check "publishing without a key is refused, and the log says how to give one" refused_without_key

    publish "rtmp://127.0.0.1:$rtmp_port/live/test?key=$key" 120 >"$work/publish.log" 2>&1 &
    publisher_pid=$!
    check "HTTP-FLV plays" plays "http://127.0.0.1:$http_port/live/test.flv"
    check "RTMP plays" plays "rtmp://127.0.0.1:$rtmp_port/live/test"
    check "HLS plays" plays "http://127.0.0.1:$http_port/live/test/index.m3u8"
    check "the page answers" curl -fsS -o /dev/null "http://127.0.0.1:$http_port/"
    check "Prometheus reads the gateway" eventually 30 target_up
    check "Prometheus has its series" eventually 20 series_known
    check "the publisher is still there" kill -0 "$publisher_pid"
    check "the gateway is still healthy" health_is healthy
    check "the key is in no log" bash -c "! grep -q $key <<<\"\$1\"" - "$(compose logs --no-color gateway 2>&1)"

    say "Stopping"
    local gateway
    gateway=$(container gateway)
    compose stop gateway >/dev/null 2>&1
    check "SIGTERM ends it with exit code 0" is "$(docker inspect --format '{{.State.ExitCode}}' "$gateway")" 0
    ((failed == 0)) || compose logs --no-color gateway | tail -40
}

install_tools
start_engine
run_tests
printf '\n%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))

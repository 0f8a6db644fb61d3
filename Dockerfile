# Spillway in a small image: the binary, and nothing that runs beside it.
#
#   docker build -t spillway .
#   docker run --rm --read-only --cap-drop ALL --security-opt no-new-privileges -p 1935:1935 -p 8080:8080 \
#       -e SPILLWAY__AUTH__PUBLISH_KEYS=choose-a-key spillway
#
# Publish to rtmp://HOST/live/NAME?key=choose-a-key, watch at http://HOST:8080/. docker-compose.yml adds Prometheus.

FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
# Symbol names stay for backtraces; line tables would make the image three times as large.
RUN cargo build --release --locked --package spillway --config 'profile.release.strip="debuginfo"'

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="Spillway" \
      org.opencontainers.image.description="A live media gateway: RTMP in; RTMP, HTTP-FLV, WebSocket-FLV and HLS out." \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
COPY --from=build /src/target/release/spillway /usr/local/bin/spillway
# The authorities that an https hook is checked by.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# The licences, and the annotated configuration to start from:
#   docker run --rm --entrypoint cat spillway /usr/share/doc/spillway/spillway.toml > spillway.toml
COPY LICENSE-MIT LICENSE-APACHE config/spillway.toml /usr/share/doc/spillway/
# By number, so that an orchestrator can see that it is not root. Nothing is written, so there is no home.
USER 10001:10001
# RTMP; viewers; operators (on loopback unless admin.listen says otherwise).
EXPOSE 1935 8080 8081
STOPSIGNAL SIGTERM
# Asks /readyz on admin.listen, as the environment or SPILLWAY_CONFIG sets it.
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["spillway", "healthcheck"]
ENTRYPOINT ["spillway"]

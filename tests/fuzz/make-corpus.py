#!/usr/bin/env python3
"""Makes the seed corpus from real traffic: what ffmpeg sends to a gateway, and the tag bodies of the test clips.

Usage: make-corpus.py RTMP_PORT CLIP.flv...   with a gateway running on 127.0.0.1:RTMP_PORT
"""
import pathlib
import socket
import struct
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).parent / "corpus"
KEPT_BYTES = 2048


def save(target, name, data):
    folder = HERE / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data[:KEPT_BYTES] if target not in ("server_session", "handshake") else data[:6144])


def capture(port, command):
    """Runs a client through a relay and gives what it sent."""
    sent = bytearray()
    listener = socket.create_server(("127.0.0.1", 0))

    def relay():
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", port))

        def back():
            while data := server.recv(65536):
                client.sendall(data)

        threading.Thread(target=back, daemon=True).start()
        try:
            while data := client.recv(65536):
                sent.extend(data)
                server.sendall(data)
        except OSError:
            pass

    threading.Thread(target=relay, daemon=True).start()
    subprocess.run([word.replace("PORT", str(listener.getsockname()[1])) for word in command], timeout=20,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return bytes(sent)


def tags(path):
    data = path.read_bytes()
    at = 13
    while at + 15 <= len(data):
        length = int.from_bytes(data[at + 1:at + 4], "big")
        yield data[at], data[at + 11:at + 11 + length]
        at += 15 + length


def main():
    port, clips = int(sys.argv[1]), [pathlib.Path(name) for name in sys.argv[2:]]
    clients = {
        "ffmpeg-publish": ["ffmpeg", "-v", "error", "-t", "0.2", "-i", str(clips[0]), "-c", "copy", "-f", "flv",
                           "rtmp://127.0.0.1:PORT/live/seed?key=x"],
        "ffmpeg-play": ["ffmpeg", "-v", "error", "-i", "rtmp://127.0.0.1:PORT/live/none", "-f", "null", "-"],
        "rtmpdump-play": ["rtmpdump", "-q", "-v", "-r", "rtmp://127.0.0.1:PORT/live/none", "-o", "/dev/null"],
    }
    for name, command in clients.items():
        sent = capture(port, command)
        save("handshake", name, b"\x00" + sent[:3073])
        save("server_session", name, b"\x03\x00" + sent)
        save("server_session", name + "-cut", b"\x02\x07" + sent[3073:])
        save("chunk", name, b"\x00" + sent[3073:])
        save("chunk", name + "-cut", b"\x05" + sent[3073:])
        # The connect command: a fmt-0 chunk head of 12 bytes, then AMF0.
        save("amf0", name, sent[3073 + 12:3073 + 12 + 128])
    for clip in clips:
        save("flv_file", clip.stem, b"\x0d" + clip.read_bytes()[:1500])
        seen = {}
        frames = bytearray()
        for kind, body in tags(clip):
            number = seen[kind] = seen.get(kind, 0) + 1
            if number <= 2:
                target = {8: "flv_audio", 9: "flv_video", 18: "amf0"}[kind]
                save(target, f"{clip.stem}-{number}", body)
            if kind == 9 and number == 1:
                record = body[5:]
                save("hevc_config" if "hevc" in clip.stem else "avc_config", clip.stem, record)
            if kind == 8 and number == 1 and body[:1] == b"\xaf":
                save("aac_config", clip.stem, body[2:])
            if kind in (8, 9) and 1 < number <= 4:
                key = kind == 9 and body[0] >> 4 == 1
                payload = (body[5:] if kind == 9 else body[2:])[:250]
                frames += struct.pack(">BHbH", (kind == 8) | key << 1 | 4, 40, 0, len(payload)) + payload
        save("ts_packager", clip.stem, bytes(frames))
    save("amf3", "object", bytes.fromhex("0a0b01036106036203630401036405400900000000000001"))
    save("amf3", "array", bytes.fromhex("090501040104020a0b010101"))


main()

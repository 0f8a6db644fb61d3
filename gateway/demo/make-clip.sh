#!/usr/bin/env bash
# Makes clip.flv, the clip that `spillway --demo` publishes in a loop.
#
# 640x360 at 25 frames a second, H.264 without B-frames, a key frame each second, AAC at 48 kHz;
# a clock counts the seconds of the loop and a beep marks each one.
#
# The clip loops without a seam: 8 s are exactly 200 video frames and 375 AAC frames of 1024 samples, and
# the picture and the tone repeat every 8 s. Two rounds are encoded and the second is kept, so that the first
# AAC frame overlaps with what the last one ended on and no encoder priming is in the file.
#
# Needs ffmpeg with libx264 and drawtext, and a font (Debian: ffmpeg, fonts-dejavu-core).
set -euo pipefail
cd "$(dirname "$0")"

readonly seconds=8 fps=25 rate=48000
readonly font=${FONT:-/usr/share/fonts/truetype/dejavu/DejaVuSansMono-Bold.ttf}
readonly out=${1:-clip.flv}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ -r "$font" ] || { echo "make-clip: no font at $font (apt-get install fonts-dejavu-core, or set FONT)" >&2; exit 1; }

clock="%{eif\\:mod(floor(t+0.001)\\,$seconds)\\:d\\:2}.%{eif\\:mod(floor((t+0.001)*$fps)\\,$fps)\\:d\\:2}"
picture="smptebars=size=640x360:rate=$fps[bars];
  color=size=40x40:rate=$fps:color=white[ball];
  [bars][ball]overlay=x='300+280*sin(2*PI*t/4)':y='250+60*cos(2*PI*t/2)',
  drawtext=fontfile=$font:text='$clock':fontsize=110:fontcolor=white:box=1:boxcolor=black@0.7:boxborderw=18:x=(w-tw)/2:y=70,
  drawtext=fontfile=$font:text='spillway demo':fontsize=26:fontcolor=white:box=1:boxcolor=black@0.7:boxborderw=8:x=(w-tw)/2:y=20,
  format=yuv420p"
beep="if(lt(mod(t,1),0.08),0.4*sin(2*PI*if(lt(mod(t,$seconds),1),1500,1000)*t),0)"

common=(-hide_banner -loglevel error -nostdin -y)
ffmpeg "${common[@]}" -filter_complex "$picture" -f lavfi -i "aevalsrc='$beep':s=$rate:c=mono" \
    -t $((seconds * 2 + 1)) -c:v libx264 -preset slow -profile:v main -bf 0 -g $fps -keyint_min $fps -sc_threshold 0 \
    -x264-params open-gop=0 -crf 20 -maxrate 500k -bufsize 500k -threads 1 \
    -c:a aac -b:a 64k -flags +bitexact "$work/two-rounds.mp4"
ffmpeg "${common[@]}" -ss "$seconds" -i "$work/two-rounds.mp4" -t "$seconds" -map 0:v -map 0:a -c copy \
    -map_metadata -1 -fflags +bitexact -flags +bitexact -f flv "$out"

count() { ffprobe -v error -select_streams "$1" -count_packets -show_entries stream=nb_read_packets -of csv=p=0 "$out"; }
video=$(count v) audio=$(count a) bytes=$(stat -c %s "$out")
echo "$out: $bytes bytes, $video video frames, $audio audio frames"
[ "$video" = $((seconds * fps)) ] && [ "$audio" = $((seconds * rate / 1024)) ] || {
    echo "make-clip: expected $((seconds * fps)) video and $((seconds * rate / 1024)) audio frames" >&2
    exit 1
}
[ "$bytes" -le 700000 ] || { echo "make-clip: larger than 700000 bytes" >&2; exit 1; }

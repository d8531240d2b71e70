use proptest::prelude::*;

use super::skim::TOKEN_LIMIT;
use super::*;
use crate::message::{Kind, Message, arbitrary};

/// Feeds `chunks` one after the other and collects every frame.
fn frames<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Line> {
    let mut framer = Framer::new(limit);
    let mut frames = Vec::new();
    for chunk in chunks {
        framer.spare().extend_from_slice(chunk);
        frames.extend(std::iter::from_fn(|| framer.next_line()));
        assert!(framer.buffered() <= limit);
    }
    frames.extend(std::iter::from_fn(|| framer.last_line()));
    assert_eq!(framer.buffered(), 0);
    frames
}

fn lines(stream: &[u8]) -> Vec<Line> {
    frames(1 << 20, [stream])
}

fn line(text: impl AsRef<[u8]>) -> Line {
    Line::Whole(Bytes::copy_from_slice(text.as_ref()))
}

/// What a line too long to keep tells, however it is cut in two.
fn skimmed(text: impl AsRef<[u8]>) -> TooLong {
    let text = text.as_ref();
    let mut seen = None;
    for cut in 0..=text.len() {
        let (a, b) = text.split_at(cut);
        let all = frames(0, [a, b, b"\n"]);
        let [Line::TooLong(one)] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(seen.get_or_insert_with(|| one.clone()), one, "cut at {cut}");
    }
    seen.expect("at least one cut")
}

#[test]
fn lines_end_at_lf() {
    assert_eq!(lines(b"a\nbc\n"), [line("a"), line("bc")]);
    assert_eq!(lines(b""), []);
}

#[test]
fn a_cr_goes_with_its_lf_and_stays_elsewhere() {
    assert_eq!(
        lines(b"a\r\nb\rc\n\rd\r\r\n"),
        [line("a"), line("b\rc"), line("\rd\r")]
    );
}

#[test]
fn blank_lines_are_left_out() {
    assert_eq!(lines(b"\n\r\n \t \n\r\r\na\n\n"), [line("a")]);
    assert_eq!(lines(b"  \r"), []);
}

#[test]
fn the_last_line_needs_no_lf() {
    assert_eq!(lines(b"a\nb"), [line("a"), line("b")]);
    assert_eq!(lines(b"a\nb\r"), [line("a"), line("b")]);
}

#[test]
fn a_byte_order_mark_is_dropped_at_the_start_of_every_line() {
    assert_eq!(lines(b"\xef\xbb\xbfa\n"), [line("a")]);
    assert_eq!(lines(b"\xef\xbb\xbf\r\na\n"), [line("a")]);
    assert_eq!(lines(b"\xef\xbb\xbf"), []);
    assert_eq!(lines(b"\xef\xbba\n"), [line(b"\xef\xbba")]);
    assert_eq!(lines(b"a\n\xef\xbb\xbfb\n"), [line("a"), line("b")]);
    assert_eq!(
        lines(b"a\xef\xbb\xbf\n\xef\xbb\xbf\xef\xbb\xbfb\n"),
        [line(b"a\xef\xbb\xbf"), line(b"\xef\xbb\xbfb")],
        "one, and nowhere else"
    );
}

#[test]
fn finish_gives_whole_lines_first() {
    let mut framer = Framer::new(10);
    framer.extend(b"a\nb\nc");
    let rest: Vec<_> = std::iter::from_fn(|| framer.last_line()).collect();
    assert_eq!(rest, [line("a"), line("b"), line("c")]);
}

#[test]
fn the_limit_is_exact_however_the_bytes_come() {
    const LIMIT: usize = 200;
    for len in LIMIT - 2..=LIMIT + 2 {
        let long = format!(r#"{{"id":1,"x":"{}"}}"#, "y".repeat(len - 15));
        assert_eq!(long.len(), len);
        let stream = format!("a\n{long}\nb\n");
        for size in [1, 2, 7, LIMIT, LIMIT + 1, 1000] {
            let all = frames(LIMIT, stream.as_bytes().chunks(size));
            let middle = if len > LIMIT {
                Line::TooLong(TooLong {
                    id: Some(Id::Int(1)),
                    id_json: Bytes::from_static(b"1"),
                    has_method: false,
                    len: len as u64,
                })
            } else {
                line(&long)
            };
            assert_eq!(all, [line("a"), middle, line("b")], "{len} by {size}");
        }
    }
}

#[test]
fn a_long_line_without_end_is_told_of_at_the_end() {
    let all = frames(4, [&b"{\"id\":"[..], b"7,", b"\"method\":\"x\""]);
    let [Line::TooLong(long)] = &all[..] else {
        panic!("{all:?}");
    };
    assert_eq!((&long.id, long.has_method), (&Some(Id::Int(7)), true));
    assert_eq!(long.len, 20);
}

#[test]
fn an_endless_line_takes_no_memory() {
    let mut framer = Framer::new(READ_SIZE);
    let chunk = vec![b'x'; READ_SIZE];
    framer.extend(b"{\"id\":1,\"a\":\"");
    for _ in 0..200 {
        framer.spare().extend_from_slice(&chunk);
        assert_eq!(framer.next_line(), None);
        assert!(framer.buffered() <= READ_SIZE);
        assert!(framer.buffer.capacity() <= 8 * READ_SIZE);
    }
    framer.extend(b"\"}\nnext\n");
    let Some(Line::TooLong(long)) = framer.next_line() else {
        panic!("not told of");
    };
    assert_eq!(long.id, Some(Id::Int(1)));
    assert_eq!(long.len, 200 * READ_SIZE as u64 + 15);
    assert_eq!(framer.next_line(), Some(line("next")));
}

#[test]
fn short_lines_do_not_hold_the_buffer() {
    let mut framer = Framer::new(1 << 20);
    let mut kept = Vec::new();
    let mut places = std::collections::HashSet::new();
    for _ in 0..1000 {
        places.insert(framer.spare().as_ptr());
        framer.spare().extend_from_slice(&[b'x'; COPY_BELOW - 1]);
        framer.spare().extend_from_slice(b"\n");
        kept.extend(framer.next_line());
    }
    assert_eq!(kept.len(), 1000);
    // The same room again and again: as many places as lines fit into the buffer, or a few more
    // while it grew.
    assert!(places.len() < 100, "{}", places.len());
}

#[test]
fn short_lines_are_copied_next_to_each_other() {
    let mut framer = Framer::new(1 << 20);
    let len = COPY_BELOW / 4;
    for _ in 0..4 {
        framer.extend(&vec![b'x'; len]);
        framer.extend(b"\n");
    }
    let lines: Vec<_> = std::iter::from_fn(|| framer.next_line()).collect();
    let place = |frame: &Line| match frame {
        Line::Whole(line) => line.as_ptr().addr(),
        Line::TooLong(_) => panic!("too long"),
    };
    for two in lines.windows(2) {
        assert_eq!(place(&two[1]), place(&two[0]) + len);
    }
    assert_eq!(lines.len(), 4);
}

#[test]
fn nothing_is_left_of_a_line() {
    for len in [1, COPY_BELOW, KEEP_BELOW, KEEP_BELOW + 1] {
        let mut framer = Framer::new(KEEP_BELOW);
        let text = vec![b'x'; len];
        framer.extend(&text);
        framer.extend(b"\n");
        assert!(framer.next_line().is_some(), "{len}");
        assert_eq!(framer.buffered(), 0, "{len}");

        framer.extend(&text);
        assert!(framer.last_line().is_some(), "{len}");
        assert_eq!(framer.buffered(), 0, "{len}");
    }
}

#[test]
fn long_lines_are_not_copied() {
    for len in [COPY_BELOW, KEEP_BELOW - 1, KEEP_BELOW, 10 * KEEP_BELOW] {
        let mut framer = Framer::new(1 << 30);
        framer.extend(&vec![b'x'; len]);
        framer.extend(b"\nab");
        let start = framer.buffer.as_ptr();
        let Some(Line::Whole(line)) = framer.next_line() else {
            panic!("no line");
        };
        assert_eq!((line.as_ptr(), line.len()), (start, len));
        // Unless the line is large, the buffer goes on behind it.
        let goes_on = framer.buffer.as_ptr() == start.wrapping_add(len + 1);
        assert_eq!(goes_on, len < KEEP_BELOW, "{len}");
        framer.extend(b"c\n");
        assert_eq!(framer.next_line(), Some(self::line("abc")));
    }
}

#[test]
fn the_memory_of_a_large_line_goes_with_it() {
    let mut framer = Framer::new(1 << 30);
    framer.extend(&vec![b'x'; 100 * READ_SIZE]);
    framer.extend(b"\nabc");
    drop(framer.next_line());
    assert!(framer.spare().capacity() <= 4 * READ_SIZE);
    framer.extend(b"\n");
    assert_eq!(framer.next_line(), Some(line("abc")));
}

#[test]
fn the_room_of_a_read_is_kept_and_more_is_given_back() {
    let mut framer = Framer::new(10);
    for (len, kept) in [(READ_SIZE, READ_SIZE), (READ_SIZE + 1, 0)] {
        framer.spare().extend_from_slice(&vec![b'x'; len]);
        assert_eq!(framer.next_line(), None);
        assert_eq!(framer.buffer.capacity(), kept, "{len}");
    }
}

#[test]
fn no_byte_is_scanned_twice() {
    let mut framer = Framer::new(1 << 20);
    for _ in 0..100 {
        framer.extend(b"abc");
        assert_eq!(framer.next_line(), None);
        assert_eq!(framer.scanned, framer.buffered());
    }
}

#[test]
fn room_grows_with_the_line() {
    // Amortised: a line of n bytes is copied O(1) times, so there are few growths.
    let mut framer = Framer::new(1 << 30);
    let mut growths = 0;
    let mut room = 0;
    for _ in 0..1024 {
        let spare = framer.spare();
        assert!(spare.capacity() - spare.len() >= READ_SIZE);
        growths += usize::from(spare.capacity() != room);
        room = spare.capacity();
        spare.extend_from_slice(&[b'x'; READ_SIZE]);
        assert_eq!(framer.next_line(), None);
    }
    assert!(growths < 10, "{growths}");
}

#[test]
fn a_line_as_long_as_the_last_is_given_its_room_at_once() {
    let growths = |framer: &mut Framer| {
        let (mut growths, mut room) = (0, 0);
        for _ in 0..64 {
            let spare = framer.spare();
            growths += usize::from(spare.capacity() != room);
            room = spare.capacity();
            spare.extend_from_slice(&[b'x'; READ_SIZE]);
            assert_eq!(framer.next_line(), None);
        }
        framer.extend(b"\n");
        assert!(framer.next_line().is_some());
        (growths, room)
    };
    let mut framer = Framer::new(1 << 30);
    let (first, _) = growths(&mut framer);
    let (second, room) = growths(&mut framer);
    assert!(second < first, "{second} of {first}");
    // And no more than that.
    assert!(room <= 66 * READ_SIZE, "{room}");
}

#[test]
fn room_that_is_enough_does_not_grow() {
    let mut framer = Framer::new(1 << 30);
    framer.buffer.reserve(2 * READ_SIZE);
    let room = framer.buffer.capacity();
    framer.extend(&vec![b'x'; room - READ_SIZE]);
    assert_eq!(framer.spare().capacity(), room);
}

#[test]
fn the_id_is_found_anywhere() {
    for text in [
        r#"{"id":7,"method":"m","params":{"id":8}}"#,
        r#"{"method":"m","params":{"id":8,"x":[{"id":9}]},"id":7}"#,
        r#" { "params" : "\"id\":8,\\" , "method" : 1 , "id" : 7.0 } "#,
        r#"{"\u0069d":7,"m\u0065thod":null}"#,
        r#"{"id":8,"method":"m","id":7}"#,
        "\u{feff}{\"id\":7,\"method\":\"m\"}",
        r#"{"id":7,"method":{"a":"}"}}"#,
        r#"{"id":7,"method":[]"#,
        r#"{"id":7,"method":"m"}}"#,
        r#"{"id":7,"method":"m" "id":8}"#,
        r#"{"id":7,"method":"m","id":8"#,
        "{\"id\":7,\"x\":\"\u{fffd}\",\"method\":\"m\"}\r",
    ] {
        let long = skimmed(text);
        assert_eq!(long.id, Some(Id::Int(7)), "{text}");
        assert!(long.has_method, "{text}");
        assert_eq!(long.len, text.len() as u64);
    }
    let long = skimmed(r#"{"x":[[{}],"id"],"id":"\u0061","y":{"method":1}}"#);
    assert_eq!(long.id, Some(Id::text("a")));
    assert_eq!(&long.id_json[..], br#""\u0061""#);
    assert!(!long.has_method);
}

#[test]
fn no_id_is_made_up() {
    for text in [
        "xyz",
        "[{\"id\":7}]",
        "\"id\":7",
        "{{\"id\":7}}",
        r#"{"id":null}"#,
        r#"{"id":{"id":7}}"#,
        r#"{"id":[7]}"#,
        r#"{"id":true}"#,
        r#"{"id":7,"id":[]}"#,
        r#"{"id":7"#,
        r#"{"id":"7"#,
        r#"{"id""#,
        r#"{"x":"id":7}"#,
        r#"{"x" "id":7}"#,
        r#"{"x":1 "id":7}"#,
        r#"{"x":1]"id":7}"#,
        r#"{"x":1:2,"id":7}"#,
        r#"{"x":},"id":7}"#,
        r#"{"x":[\],"id":7}"#,
        r#"{"method":["x""#,
        r#"{"x":1,,"id":7}"#,
        r#"{id:7}"#,
        r#"{"a":{"id":7}}"#,
        r#"{"a":["id",7]}"#,
        r#"{"a":["],"id":7}"#,
        r#"{} {"id":7}"#,
        "x{\"id\":7}",
        " \u{feff}{\"id\":7}",
    ] {
        let long = skimmed(text);
        assert_eq!((long.id, &long.id_json[..]), (None, &b""[..]), "{text}");
        assert!(!long.has_method, "{text}");
    }
    assert_eq!(skimmed(b"\xef\xbb{\"id\":7}").id, None);
    assert_eq!(skimmed(b"{\"id\":\"\xff\"}").id, None);
}

#[test]
fn ids_and_keys_beyond_reason_are_passed_over() {
    let fits = "x".repeat(TOKEN_LIMIT - 2);
    let read = |text: String| match &frames(0, [text.as_bytes()])[..] {
        [Line::TooLong(long)] => long.id.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        read(format!(r#"{{"id":"{fits}"}}"#)),
        Some(Id::text(&*fits))
    );
    assert_eq!(read(format!(r#"{{"id":"{fits}x"}}"#)), None);
    assert_eq!(read(format!(r#"{{"id":"{fits}","id":"{fits}x"}}"#)), None);
    assert_eq!(
        read(format!(r#"{{"id":{}}}"#, "1".repeat(TOKEN_LIMIT + 1))),
        None
    );
    assert_eq!(
        read(format!(r#"{{"{fits}xxx":1,"id":7}}"#)),
        Some(Id::Int(7))
    );
}

/// The rules once more, for a stream that is all there.
fn expected(limit: usize, stream: &[u8]) -> Vec<Line> {
    let mut frames = Vec::new();
    for raw in stream.split(|&b| b == b'\n') {
        if raw.len() > limit {
            let mut skim = Skim::default();
            skim.feed(raw);
            frames.push(Line::TooLong(skim.finish()));
            continue;
        }
        let text = raw.strip_prefix(BOM).unwrap_or(raw);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if !text.iter().all(u8::is_ascii_whitespace) {
            frames.push(line(text));
        }
    }
    frames
}

const BREAKS: &[&[u8]] = &[b"\n", b"\r\n", b"\r", b" ", BOM, b"\xff", b"\n\n"];

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        arbitrary::line().prop_map(String::into_bytes),
        prop::sample::select(BREAKS).prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..20),
        (0..3 * COPY_BELOW).prop_map(|n| vec![b'z'; n]),
    ];
    prop::collection::vec((piece, any::<bool>()), 0..12).prop_map(|pieces| {
        let with_ends = pieces.into_iter().map(|(mut piece, end)| {
            piece.extend_from_slice(if end { b"\n" } else { b"" });
            piece
        });
        with_ends.collect::<Vec<_>>().concat()
    })
}

proptest! {
    #[test]
    fn how_the_stream_is_cut_makes_no_difference(
        stream in stream(),
        limit in prop_oneof![0..300usize, 0..3 * COPY_BELOW],
        sizes in prop::collection::vec(prop_oneof![1..10usize, 1..5000usize], 1..20),
    ) {
        let mut sizes = sizes.into_iter().cycle();
        let mut rest = &stream[..];
        let chunks = std::iter::from_fn(|| {
            let size = sizes.next()?.min(rest.len());
            let (chunk, more) = rest.split_at(size);
            rest = more;
            (size > 0).then_some(chunk)
        });
        prop_assert_eq!(frames(limit, chunks), expected(limit, &stream));
        prop_assert_eq!(frames(limit, [&stream[..]]), expected(limit, &stream));
    }

    #[test]
    fn skimming_finds_what_reading_finds(
        text in arbitrary::line(),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = Bytes::from(text);
        for text in [whole.clone(), whole.slice(..cut.index(whole.len()))] {
            let (id, id_json, has_method) = match Message::read(text.clone()) {
                Ok(m) if m.id() == Some(&Id::Null) => (None, Bytes::new(), false),
                Ok(m) => {
                    let json = m.id().map_or(&b""[..], |_| m.id_json());
                    (m.id().cloned(), Bytes::copy_from_slice(json), m.kind() != Kind::Response)
                }
                Err(d) => (d.id, d.id_json, d.has_method),
            };
            let len = text.len() as u64;
            let long = TooLong { id, id_json, has_method, len };
            let told = if text.is_empty() { vec![] } else { vec![Line::TooLong(long)] };
            prop_assert_eq!(frames(0, text.chunks(3)), told);
        }
    }
}

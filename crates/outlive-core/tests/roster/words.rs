//! What all servers declare and say.

use outlive_core::roster::{Entry, Offer};

use crate::servers::{roster, server};

fn declaring(at: usize, capabilities: &str) -> Entry {
    let offer = Offer::new("v", b"{}", capabilities.as_bytes(), None);
    server(at, &format!("s{at}"), Some(offer))
}

fn saying(at: usize, name: &str, text: &str) -> Entry {
    server(at, name, Some(Offer::new("v", b"{}", b"{}", Some(text))))
}

fn declared(servers: &[Entry]) -> String {
    let json = roster(servers).capabilities().to_json();
    String::from_utf8(json.to_vec()).expect("UTF-8")
}

#[test]
fn what_one_server_can_do_all_can_do_together() {
    let servers = [
        declaring(
            0,
            r#"{"tools":{},"experimental":{"a":{"v":1}},"tasks":{"list":{}}}"#,
        ),
        declaring(
            1,
            r#"{"resources":{"subscribe":true},"experimental":{"a":{"v":2},"b":{}},"tasks":7}"#,
        ),
        declaring(
            2,
            r#"{"prompts":{"listChanged":false},"extensions":{"x/y":{}},"logging":{}}"#,
        ),
    ];
    assert_eq!(
        declared(&servers),
        concat!(
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"#,
            r#""resources":{"subscribe":true,"listChanged":true},"logging":{},"#,
            r#""experimental":{"a":{"v":1},"b":{}},"extensions":{"x/y":{}},"tasks":{"list":{}}}"#
        )
    );
    assert_eq!(
        declared(&servers[..1]),
        r#"{"tools":{"listChanged":true},"experimental":{"a":{"v":1}},"tasks":{"list":{}}}"#
    );
    assert_eq!(declared(&[]), "{}");
    assert_eq!(
        declared(&[declaring(0, r#"{"resources":{},"completions":{}}"#)]),
        r#"{"resources":{"listChanged":true},"completions":{}}"#
    );
}

#[test]
fn a_server_of_which_nothing_is_known_may_be_able_to_do_anything() {
    let servers = [declaring(0, r#"{"tools":{}}"#), server(1, "u", None)];
    assert_eq!(
        declared(&servers),
        concat!(
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"#,
            r#""resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}}"#
        )
    );
    assert_eq!(
        roster(&servers)
            .unknown()
            .map(|(_, name)| name)
            .collect::<Vec<_>>(),
        ["u"]
    );
}

#[test]
fn capabilities_nobody_knows_are_bounded() {
    let many: Vec<String> = (0..1_000).map(|at| format!(r#""c{at}":{{}}"#)).collect();
    let all = roster(&[declaring(0, &format!("{{{}}}", many.join(",")))]);
    assert_eq!(all.capabilities().others.len(), 64);
}

#[test]
fn short_instructions_stand_under_the_names_of_their_servers() {
    let servers = [
        saying(0, "a", " Ask first.\nThen act. "),
        server(1, "u", None),
        saying(2, "b", "Be kind."),
    ];
    assert_eq!(
        roster(&servers).instructions(),
        Some("## a\n\nAsk first.\nThen act.\n\n## b\n\nBe kind.")
    );
    assert_eq!(roster(&[saying(0, "a", "  ")]).instructions(), None);
    assert_eq!(roster(&[]).instructions(), None);
}

#[test]
fn every_server_has_its_first_sentence_before_any_has_its_whole_text() {
    let long = "First of all this. ".to_string() + &"Then more and more of it. ".repeat(200);
    let servers = [
        saying(0, "a", &long),
        saying(1, "b", "Be kind. Or not."),
        saying(2, "c", &long),
    ];
    let roster = roster(&servers);
    let text = roster.instructions().expect("a text");
    assert!(text.len() <= 2_048 && text.len() > 1_800, "{}", text.len());
    assert!(
        text.starts_with("## a\n\nFirst of all this. Then more"),
        "{text}"
    );
    assert!(
        text.contains("of it. …\n\n## b\n\nBe kind. …\n\n## c\n\nFirst of all this. …"),
        "{text}"
    );
}

#[test]
fn what_does_not_fit_is_counted() {
    let servers: Vec<Entry> = (0..100)
        .map(|at| saying(at, &format!("server {at}"), &"é".repeat(900)))
        .collect();
    let roster = roster(&servers);
    let text = roster.instructions().expect("a text");
    let shown = text.matches("## server").count();
    assert!(text.len() <= 2_048 && shown > 5, "{text}");
    let counted = format!(
        "(The instructions of {} more servers were left out.)",
        100 - shown
    );
    assert!(text.ends_with(&counted), "{text}");
}

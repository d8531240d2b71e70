//! Pages, and cursors that outlive servers.

use outlive_core::protocol::List;
use outlive_core::roster::{BadCursor, Roster};
use proptest::prelude::*;

use crate::servers::{roster, tools};

fn walk(roster: &Roster, items: usize, bytes: usize) -> Vec<bytes::Bytes> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = roster
            .page(List::Tools, cursor.as_deref(), items, bytes)
            .expect("a page");
        all.extend_from_slice(page.items);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("t{at}")).collect()
}

fn of(names: &[String]) -> Roster {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    roster(&[tools(0, "s", &names)])
}

#[test]
fn a_page_has_at_least_one_entry_and_no_more_than_was_asked_for() {
    let roster = of(&names(5));
    let page = |items, bytes| {
        roster
            .page(List::Tools, None, items, bytes)
            .expect("a page")
            .items
            .len()
    };
    assert_eq!(page(2, usize::MAX), 2);
    assert_eq!(page(100, usize::MAX), 5);
    assert_eq!(page(0, 0), 1);
    let entry = roster.items(List::Tools)[0].len() + 1;
    assert_eq!(page(100, 3 * entry), 3);
    assert_eq!(page(100, 3 * entry - 1), 2);
    assert_eq!(
        roster
            .page(List::Tools, None, 5, usize::MAX)
            .expect("a page")
            .next,
        None
    );
}

#[test]
fn an_empty_list_has_one_empty_page() {
    let page = of(&[])
        .page(List::Tools, None, 10, 10)
        .map(|page| (page.items.len(), page.next));
    assert_eq!(page, Ok((0, None)));
}

#[test]
fn reading_goes_on_behind_the_last_entry_wherever_it_stands_now() {
    let before = of(&names(6));
    let next = before
        .page(List::Tools, None, 3, usize::MAX)
        .expect("a page")
        .next
        .expect("a cursor");
    let restarted = of(&names(6));
    let page = restarted
        .page(List::Tools, Some(&next), 9, usize::MAX)
        .expect("a page");
    assert_eq!(page.items, &before.items(List::Tools)[3..]);

    let mut grown = vec!["new".to_string()];
    grown.extend(names(6));
    let grown = of(&grown);
    let page = grown
        .page(List::Tools, Some(&next), 9, usize::MAX)
        .expect("a page");
    assert_eq!(page.items, &grown.items(List::Tools)[4..]);

    let shrunk = of(&names(6)[2..]);
    let page = shrunk
        .page(List::Tools, Some(&next), 9, usize::MAX)
        .expect("a page");
    assert_eq!(page.items.len(), 3);

    let gone = of(&[&names(2)[..], &names(6)[3..]].concat());
    assert_eq!(
        gone.page(List::Tools, Some(&next), 9, usize::MAX),
        Err(BadCursor)
    );
}

#[test]
fn cursors_of_others_lead_nowhere() {
    let roster = of(&names(3));
    for cursor in [
        "",
        ".",
        "1",
        "1.",
        "0.0",
        "1.zz",
        "-1.0",
        "1.0",
        "99999999999999999999.0",
        "é.é",
    ] {
        assert_eq!(
            roster.page(List::Tools, Some(cursor), 1, 1),
            Err(BadCursor),
            "{cursor}"
        );
    }
    assert_eq!(
        BadCursor.to_string(),
        "the list has changed; begin again without a cursor"
    );
}

#[test]
fn the_digest_changes_with_what_is_listed() {
    let one = of(&names(3));
    assert_eq!(one.digest(List::Tools), of(&names(3)).digest(List::Tools));
    let mut turned = names(3);
    turned.reverse();
    for other in [of(&names(2)), of(&turned), of(&[])] {
        assert_ne!(one.digest(List::Tools), other.digest(List::Tools));
    }
    assert_eq!(
        one.digest(List::Prompts),
        of(&names(2)).digest(List::Prompts)
    );
}

proptest! {
    #[test]
    fn a_walk_sees_every_entry_once(count in 0_usize..60, items in 0_usize..70, bytes in 0_usize..400) {
        let roster = of(&names(count));
        prop_assert_eq!(walk(&roster, items, bytes), roster.items(List::Tools));
    }

    #[test]
    fn no_cursor_makes_it_panic(cursor in "[0-9]{0,3}\\.?[0-9a-f]{0,18}") {
        let roster = of(&names(9));
        let _ = roster.page(List::Tools, Some(&cursor), 3, 100);
    }
}

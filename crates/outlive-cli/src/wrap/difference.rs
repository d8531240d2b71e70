//! The difference between two texts, line by line, as `diff -u` prints it.
//!
//! This is Myers' greedy algorithm: time and memory depend on how much differs rather than on how long the texts are. A
//! host's file may have many thousand lines, of which a few are replaced.

use std::ops::Range;

/// Unchanged lines that are shown around a change.
const CONTEXT: usize = 3;
/// Lines that are added and removed, in all. If more are, everything from the first to the last of them is shown as
/// replaced.
const MOST: usize = 2000;

/// Lines of the old text that others of the new one stand for; either may be none.
#[derive(Debug, Clone)]
struct Change {
    old: Range<usize>,
    new: Range<usize>,
}

/// What turns the old text into the new one; nothing if they are the same.
pub fn unified(name: &str, old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let changes = changes(&old, &new);
    let mut text = String::new();
    if !changes.is_empty() {
        text = format!("--- {name}\n+++ {name}\n");
    }
    let near = |one: &Change, next: &Change| next.old.start - one.old.end <= 2 * CONTEXT;
    for together in changes.chunk_by(near) {
        hunk(&mut text, together, &old, &new);
    }
    text
}

/// Changes that are near each other, and what is around them.
fn hunk(text: &mut String, changes: &[Change], old: &[&str], new: &[&str]) {
    let (first, last) = (&changes[0], &changes[changes.len() - 1]);
    let before = first.old.start.min(CONTEXT);
    let after = (old.len() - last.old.end).min(CONTEXT);
    let end = last.old.end + after;
    let mut at = first.old.start - before;
    *text += &format!(
        "@@ -{} +{} @@\n",
        place(&(at..end)),
        place(&(first.new.start - before..last.new.end + after))
    );
    for change in changes {
        lines(text, ' ', &old[at..change.old.start]);
        lines(text, '-', &old[change.old.clone()]);
        lines(text, '+', &new[change.new.clone()]);
        at = change.old.end;
    }
    lines(text, ' ', &old[at..end]);
}

fn lines(text: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        text.push(mark);
        *text += line;
        if !line.ends_with('\n') {
            *text += "\n\\ No newline at end of file\n";
        }
    }
}

/// Where a hunk is: lines count from one, and a place without lines is named by the line before it.
fn place(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn changes(old: &[&str], new: &[&str]) -> Vec<Change> {
    let same = |(one, other): &(&&str, &&str)| one == other;
    let head = old.iter().zip(new).take_while(same).count();
    let (old, new) = (&old[head..], &new[head..]);
    let ends = old.iter().rev().zip(new.iter().rev());
    let tail = ends.take_while(same).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    let all = Change {
        old: 0..old.len(),
        new: 0..new.len(),
    };
    let mut changes = match rounds(old, new) {
        Some(rounds) => joined(edits(&rounds, old.len(), new.len())),
        None => vec![all],
    };
    for Change { old, new } in &mut changes {
        *old = old.start + head..old.end + head;
        *new = new.start + head..new.end + head;
    }
    changes
}

/// How far each diagonal gets with so many edits. With `count` edits there are `count + 1` diagonals, and on the one
/// with number `nth` the lines of the old text are `2 * nth - count` more than those of the new one.
type Round = Vec<usize>;

/// A round for each number of edits, up to the number that leads from the old text to the new one.
fn rounds(old: &[&str], new: &[&str]) -> Option<Vec<Round>> {
    let mut rounds: Vec<Round> = Vec::new();
    for count in 0..=MOST {
        let last = rounds.last();
        let mut round = Round::with_capacity(count + 1);
        for nth in 0..=count {
            let mut at = last.map_or(0, |last| edit(last, nth).0);
            // Out of the new text at the other side; the diagonal leads nowhere.
            let line = |at: usize| (at + count).checked_sub(2 * nth);
            while let (Some(one), Some(other)) = (old.get(at), line(at).and_then(|it| new.get(it)))
                && one == other
            {
                at += 1;
            }
            round.push(at);
        }
        // The diagonal on which both end, if this round has it.
        let ahead = (old.len() + count).checked_sub(new.len());
        let end = ahead.filter(|ahead| ahead % 2 == 0).map(|it| it / 2);
        let arrived = end.and_then(|nth| round.get(nth)) >= Some(&old.len());
        rounds.push(round);
        if arrived {
            return Some(rounds);
        }
    }
    None
}

/// Where a diagonal begins after the last round, and whether a line was removed to get there or one was added.
fn edit(last: &[usize], nth: usize) -> (usize, bool) {
    let removed = nth.checked_sub(1).map(|nth| last[nth] + 1);
    let added = last.get(nth).copied();
    match removed > added {
        true => (removed.unwrap_or_default(), true),
        false => (added.unwrap_or_default(), false),
    }
}

/// The way back through all rounds: edits of one line each, the first one first.
fn edits(rounds: &[Round], old: usize, new: usize) -> Vec<Change> {
    let mut edits = Vec::new();
    let mut nth = (old + rounds.len() - 1 - new) / 2;
    for count in (1..rounds.len()).rev() {
        let (at, is_removed) = edit(&rounds[count - 1], nth);
        let line = at + count - 2 * nth;
        edits.push(match is_removed {
            true => Change {
                old: at - 1..at,
                new: line..line,
            },
            false => Change {
                old: at..at,
                new: line - 1..line,
            },
        });
        nth -= usize::from(is_removed);
    }
    edits.reverse();
    edits
}

/// Edits with nothing between them are one change.
fn joined(edits: Vec<Change>) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for edit in edits {
        match changes.last_mut() {
            Some(last) if last.old.end == edit.old.start && last.new.end == edit.new.start => {
                last.old.end = edit.old.end;
                last.new.end = edit.new.end;
            }
            _ => changes.push(edit),
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a difference makes of a text, as `patch` would.
    fn patched(old: &str, difference: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let mut new = String::new();
        let mut at = 0;
        for line in difference.split_inclusive('\n').skip(2) {
            if line.starts_with('\\') {
                assert_eq!(new.pop(), Some('\n'), "{difference}");
            } else if let Some(places) = line.strip_prefix("@@ -") {
                let place = places.split([' ', ',']).next().unwrap();
                let has_lines = !places.split(' ').next().unwrap().ends_with(",0");
                let start = place.parse::<usize>().unwrap() - usize::from(has_lines);
                new.extend(old[at..start].iter().copied());
                at = start;
            } else {
                let text = line[1..].trim_end_matches('\n');
                if !line.starts_with('+') {
                    assert_eq!(old[at].trim_end_matches('\n'), text, "{difference}");
                    at += 1;
                }
                if !line.starts_with('-') {
                    new += &line[1..];
                }
                // What is removed may be the one without an end of line; then the mark belongs to it.
                if line.starts_with('-') && !old[at - 1].ends_with('\n') {
                    new.push('\n');
                }
            }
        }
        new.extend(old[at..].iter().copied());
        new
    }

    #[test]
    fn it_is_what_diff_prints() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl";
        let new = "a\nb\nc\nd\nE\nf\ng\nh\ni\nj\nk\nl\nm\n";
        let wanted = "--- file\n+++ file\n@@ -2,11 +2,12 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n i\n j\n k\n-l\n\
                      \\ No newline at end of file\n+l\n+m\n";
        assert_eq!(unified("file", old, new), wanted);
        let far = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let parts = unified("f", far, &far.replace('1', "x").replace('9', "y"));
        assert_eq!(
            parts,
            "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n"
        );
    }

    #[test]
    fn nothing_and_something() {
        assert_eq!(unified("f", "same\n", "same\n"), "");
        assert_eq!(unified("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(unified("f", "a\n", ""), "--- f\n+++ f\n@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn it_leads_from_one_text_to_the_other() {
        let mut state = 7_u64;
        let mut drawn = |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % most
        };
        for _ in 0..3000 {
            let letters = 1 + drawn(6);
            let mut text = || {
                let mut text: String = (0..drawn(30))
                    .map(|_| format!("{}\n", drawn(letters)))
                    .collect();
                if drawn(4) == 0 {
                    text.pop();
                }
                text
            };
            let (old, new) = (text(), text());
            let difference = unified("f", &old, &new);
            assert_eq!(
                patched(&old, &difference),
                new,
                "{old:?} to {new:?}\n{difference}"
            );
            assert_eq!(difference.is_empty(), old == new);
        }
    }

    #[test]
    fn as_few_lines_as_can_be_are_changed() {
        let old: String = (0..20_000).map(|nth| format!("{nth}\n")).collect();
        let new = old
            .replace("\n10\n", "\n")
            .replace("\n19000\n", "\n19000\nnew\n");
        let difference = unified("f", &old, &new);
        let changed = difference
            .lines()
            .skip(2)
            .filter(|line| line.starts_with(['+', '-']));
        assert_eq!(changed.collect::<Vec<_>>(), ["-10", "+new"]);
    }

    #[test]
    fn what_has_nothing_in_common_is_replaced() {
        let text = |mark: char| (0..MOST).map(|nth| format!("{mark}{nth}\n")).collect();
        let (old, new): (String, String) = (text('a'), text('b'));
        assert_eq!(patched(&old, &unified("f", &old, &new)), new);
    }
}

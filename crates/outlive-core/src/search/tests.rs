use proptest::prelude::*;

use super::*;

fn named(name: &str) -> Entry<'_> {
    Entry {
        name,
        ..Entry::default()
    }
}

fn described<'a>(name: &'a str, description: &'a str) -> Entry<'a> {
    Entry {
        name,
        description: Some(description),
        ..Entry::default()
    }
}

/// The positions of what is found.
fn find(index: &Index, query: &str) -> Vec<usize> {
    index
        .find(query, 10)
        .iter()
        .map(|found| found.position)
        .collect()
}

fn parts_of(text: &str) -> Vec<&str> {
    term::words(text).flat_map(term::parts).collect()
}

#[test]
fn identifiers_are_cut_into_their_parts() {
    for spelling in [
        "getUserById",
        "get_user_by_id",
        "get-user-by-id",
        "GetUserByID",
        "get.user/by:id",
    ] {
        assert_eq!(&*term::plain(spelling), "get user by id", "{spelling}");
    }
    assert_eq!(
        parts_of("github__create_issue"),
        ["github", "create", "issue"]
    );
    assert_eq!(
        parts_of("HTTPServer parseJSONBody"),
        ["HTTP", "Server", "parse", "JSON", "Body"]
    );
    assert_eq!(
        parts_of("k8s s3Bucket EC2Instance OAuth2"),
        ["k8s", "s3", "Bucket", "EC2", "Instance", "O", "Auth2"]
    );
    assert_eq!(parts_of("__ -- ... "), [""; 0]);
}

#[test]
fn english_words_are_stemmed_and_others_are_left_alone() {
    assert_eq!(term::stem("Commits"), term::stem("committing"));
    assert_eq!(term::stem("repositories"), term::stem("repository"));
    assert_eq!(term::stem("naïves"), "naïves");
    assert_eq!(term::stem("ÜBERSICHTEN"), "übersichten");
    assert_eq!(term::stem("k8s"), "k8s");
}

#[test]
fn scripts_without_spaces_yield_pairs() {
    assert_eq!(parts_of("天気予報"), ["天気", "気予", "予報"]);
    assert_eq!(parts_of("天"), ["天"]);
    assert_eq!(parts_of("天気API検索"), ["天気", "API", "検索"]);
    let index = Index::new([
        described("a", "ファイルを削除します"),
        described("b", "東京の天気を調べる"),
    ]);
    assert_eq!(find(&index, "天気")[..1], [1]);
    assert_eq!(find(&index, "削除")[..1], [0]);
}

#[test]
fn words_of_any_language_find_themselves() {
    let texts = [
        "Удалить файл",
        "Liste aller Straßen",
        "मौसम की जानकारी",
        "حذف الملف",
        "πρόγνωση καιρού",
        "rename 🦀 crab",
    ];
    let index = Index::new(texts.iter().map(|text| described("x", text)));
    for (position, query) in ["удалить", "STRAßEN", "मौसम", "الملف", "Καιρού", "🦀 crabs"]
        .iter()
        .enumerate()
    {
        assert_eq!(find(&index, query), [position], "{query}");
    }
}

#[test]
fn every_filler_is_known_as_one() {
    // They are searched by halves, which finds all of them only if they are in order.
    for filler in term::FILLERS {
        assert!(
            term::is_filler(filler) && term::is_filler(&filler.to_uppercase()),
            "{filler}"
        );
    }
    assert!(!term::is_filler("file"));
}

#[test]
fn names_weigh_more_than_descriptions_and_descriptions_more_than_schemas() {
    let schema = br#"{"type":"object","properties":{"invoice":{"type":"string"}}}"#;
    let index = Index::new([
        Entry {
            name: "c",
            description: Some("Does a thing."),
            schema,
            ..Entry::default()
        },
        described("b", "Sends an invoice."),
        described("invoice", "Does a thing."),
        described("d", "Does a thing."),
    ]);
    assert_eq!(find(&index, "the invoices"), [2, 1, 0]);
}

#[test]
fn the_first_sentence_weighs_more_than_the_rest() {
    let index = Index::new([
        described("x", "Sends mail.\nNot for weather. Other tools tell it."),
        described("y", "Tells the weather. Other tools send mail."),
    ]);
    assert_eq!(find(&index, "weather"), [1, 0]);
    assert_eq!(find(&index, "mail"), [0, 1]);
}

#[test]
fn saying_a_word_a_hundred_times_is_less_than_being_about_it() {
    let long = format!("Does many things. {}", "Among them is a page. ".repeat(100));
    let index = Index::new([described("x", &long), described("y", "Prints a page.")]);
    assert_eq!(find(&index, "page"), [1, 0]);
}

#[test]
fn of_two_descriptions_with_a_word_the_shorter_one_wins() {
    let index = Index::new([
        described(
            "x",
            "Prints a page, a letter, an envelope, a label or a poster on any printer.",
        ),
        described("y", "Prints a page."),
    ]);
    assert_eq!(find(&index, "page"), [1, 0]);
}

#[test]
fn an_entry_that_answers_the_whole_query_comes_first() {
    let index = Index::new([
        named("screenshot"),
        described("capture", "Takes a screenshot of a page."),
        named("page"),
        named("list"),
    ]);
    assert_eq!(find(&index, "take a screenshot of the current page")[0], 1);
}

#[test]
fn exact_names_win_however_they_are_written() {
    let noise = "get user by id ".repeat(50);
    let index = Index::new([
        described("crm__other", &noise),
        described("crm__get_user_by_id_and_get_user", &noise),
        named("crm__getUserById"),
    ]);
    for query in [
        "crm__getUserById",
        "getUserById",
        "get_user_by_id",
        "GET USER BY ID",
        "crm get-user-by-id",
    ] {
        assert_eq!(find(&index, query)[0], 2, "{query}");
    }
}

#[test]
fn the_whole_name_wins_over_the_name_behind_the_server() {
    let index = Index::new([named("a__git__log"), named("git__log")]);
    assert_eq!(find(&index, "git__log"), [1, 0]);
}

#[test]
fn a_name_of_a_product_is_found_in_any_spelling() {
    let index = Index::new([
        described("x", "Queries MongoDB."),
        described("y", "Runs JavaScript."),
    ]);
    for (query, position) in [
        ("mongodb", 0),
        ("MongoDB", 0),
        ("mongo", 0),
        ("javascript", 1),
        ("JavaScript", 1),
    ] {
        assert_eq!(find(&index, query), [position], "{query}");
    }
}

#[test]
fn synonyms_are_found_after_the_word_itself() {
    let index = Index::new([
        named("remove_row"),
        named("delete_row"),
        named("paint_wall"),
    ]);
    assert_eq!(find(&index, "delete"), [1, 0]);
    assert_eq!(find(&index, "erase"), [0, 1]);
}

#[test]
fn entries_alike_stay_in_their_order() {
    let index = Index::new((0..50).map(|_| described("search", "Searches.")));
    let found = index.find("search", 10);
    assert_eq!(
        found.iter().map(|found| found.position).collect::<Vec<_>>(),
        Vec::from_iter(0..10)
    );
    assert!(found.iter().all(|it| it.score == found[0].score));
}

#[test]
fn nothing_is_found_for_nothing() {
    let index = Index::new([
        named("a"),
        named("__"),
        named(""),
        described("list_files", "Lists files."),
    ]);
    for query in ["", "   ", "?!", "__", "zzzyzx"] {
        assert_eq!(find(&index, query), [0; 0], "{query:?}");
    }
    assert_eq!(index.find("files", 0), []);
    assert_eq!(index.len(), 4);
    let nothing = Index::new([]);
    assert!(nothing.is_empty());
    assert_eq!(nothing.find("files", 10), []);
}

#[test]
fn fillers_count_only_when_there_is_nothing_else() {
    let index = Index::new([
        named("who_am_i"),
        described("files", "Lists the files of which you speak."),
    ]);
    assert_eq!(find(&index, "who am I"), [0]);
    assert_eq!(find(&index, "which are the files of my disk"), [1]);
}

#[test]
fn texts_in_a_schema_are_names_and_descriptions_at_any_depth() {
    let schema = br##"{"type":"object","title":"Args","description":"top","required":["hidden"],
        "properties":{"type":{"type":"string","enum":["open","shut"],"default":"unseen","pattern":"^p$"},
            "properties":{"type":"array","items":{"anyOf":[{"description":"deep","examples":["unseen"]},true,1.5]}}},
        "$defs":{"Unseen":{"properties":{"inner":{"$ref":"#/unseen","const":"fixed"}}}},
        "additionalProperties":false}"##;
    let mut texts = Vec::new();
    schema::each_text(schema, |text| texts.push(text.to_owned()));
    assert_eq!(
        texts,
        [
            "Args",
            "top",
            "type",
            "open",
            "shut",
            "properties",
            "deep",
            "inner",
            "fixed"
        ]
    );
}

#[test]
fn a_broken_schema_is_read_up_to_where_it_breaks() {
    let deep = format!(
        r#"{{"title":"seen","items":{}"#,
        r#"{"items":"#.repeat(10_000)
    );
    for schema in [r#"{"title":"seen","descr"#, r#"{"title":"seen"]]"#, &deep] {
        let index = Index::new([Entry {
            name: "x",
            schema: schema.as_bytes(),
            ..Entry::default()
        }]);
        assert_eq!(find(&index, "seen"), [0], "{schema:.40}");
    }
    for schema in [
        &b""[..],
        b"null",
        b"[]",
        b"\"text\"",
        b"\xff\xfe",
        b"{\"properties\":[{\"a\":1}]}",
    ] {
        let index = Index::new([Entry {
            name: "x",
            schema,
            ..Entry::default()
        }]);
        assert_eq!(find(&index, "x"), [0]);
    }
}

#[test]
fn giant_texts_are_read_up_to_their_limits() {
    let before = "word ".repeat(MOST_DESCRIPTION / 5 - 2);
    let description = format!("{before} inside {} outside", "word ".repeat(100_000));
    let properties: Vec<String> = (0..20_000)
        .map(|at| format!(r#""property{at}":{{"type":"string"}}"#))
        .collect();
    let schema = format!(r#"{{"properties":{{{}}}}}"#, properties.join(","));
    let name = format!("{}{}", "n".repeat(MOST_NAME), "_beyond");
    let index = Index::new([Entry {
        name: &name,
        title: Some("A title"),
        description: Some(&description),
        schema: schema.as_bytes(),
    }]);
    assert_eq!(find(&index, "inside"), [0]);
    assert_eq!(find(&index, "property7"), [0]);
    for query in ["outside", "beyond", "property19999"] {
        assert_eq!(find(&index, query), [0; 0], "{query}");
    }
}

#[test]
fn words_without_end_are_cut_and_found() {
    let word = "x".repeat(100_000);
    let index = Index::new([
        described("a", &word),
        described("b", "é".repeat(50_000).as_str()),
    ]);
    assert_eq!(find(&index, &word), [0]);
    assert_eq!(find(&index, &"é".repeat(1000)), [1]);
}

#[test]
fn a_giant_query_is_cut() {
    let index = Index::new([named("needle"), named("hay")]);
    let late = format!("{} needle", "hay ".repeat(MOST_QUERY));
    assert_eq!(find(&index, &late), [1]);
    let many: String = (0..MOST_TERMS).map(|at| format!("w{at} ")).collect();
    assert_eq!(find(&index, &format!("{many} needle")), [0; 0]);
    assert_eq!(find(&index, &format!("needle {many}")), [0]);
}

#[test]
fn beyond_the_limit_of_all_text_only_names_are_indexed() {
    let text = "common ".repeat(MOST_DESCRIPTION / 7);
    let fits = MOST_TEXT / text.len();
    let index =
        Index::new((0..=fits).map(|at| described(if at < fits { "early" } else { "late" }, &text)));
    let (all, late) = (index.find("common", usize::MAX), find(&index, "late"));
    assert_eq!((all.len(), late), (fits, vec![fits]));
}

#[test]
fn entries_beyond_the_limit_are_not_indexed() {
    let index = Index::new((0..MOST_ENTRIES + 10).map(|_| named("same")));
    assert_eq!(index.len(), MOST_ENTRIES);
}

proptest! {
    #[test]
    fn whatever_is_indexed_and_asked_the_order_is_the_same_and_right(
        texts in prop::collection::vec((any::<String>(), any::<String>(), any::<Vec<u8>>()), 0..8),
        query in any::<String>(),
        most in 0usize..8,
    ) {
        let entries = || texts.iter().map(|(name, text, schema)| {
            Entry { name, title: Some(text), description: Some(text), schema }
        });
        let found = Index::new(entries()).find(&query, most);
        prop_assert_eq!(&found, &Index::new(entries()).find(&query, most));
        prop_assert!(found.len() <= most);
        for pair in found.windows(2) {
            let after = (pair[0].score > pair[1].score)
                || (pair[0].score == pair[1].score && pair[0].position < pair[1].position);
            prop_assert!(after, "{:?}", pair);
        }
        prop_assert!(found.iter().all(|it| it.score.is_finite() && it.score > 0.0));
    }

    #[test]
    fn the_parts_of_a_text_are_its_letters_and_digits(text in any::<String>()) {
        let spaced = |c: char| c.is_alphanumeric() && !('\u{0e00}'..).contains(&c);
        let letters: String = text.chars().filter(|c| spaced(*c)).collect();
        let parts: String = parts_of(&text).concat().chars().filter(|c| spaced(*c)).collect();
        prop_assert_eq!(parts, letters);
    }

    #[test]
    fn every_entry_is_found_by_its_own_name(
        names in prop::collection::btree_set("[a-z]{1,6}(_[a-z]{1,6}|[A-Z][a-z]{1,4}){0,3}", 1..12),
    ) {
        let index = Index::new(names.iter().map(|name| named(name)));
        for (position, name) in names.iter().enumerate() {
            let found = index.find(name, names.len());
            let best = found.iter().take_while(|it| it.score == found[0].score);
            prop_assert!(best.clone().any(|it| it.position == position), "{}: {:?}", name, found);
        }
    }
}

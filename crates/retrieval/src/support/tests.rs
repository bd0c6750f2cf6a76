use super::*;

fn support(statement: &str, quotes: &[&str]) -> Support {
    let quotes: Vec<Said> = quotes.iter().flat_map(|quote| sentences(quote)).collect();
    super::support(&Said::of(statement), &quotes.iter().collect::<Vec<_>>(), &Said::default())
}

fn contradicted(quote: &str, statement: &str) -> Support {
    Support::Contradicted { quote: quote.to_owned(), statement: statement.to_owned() }
}

#[test]
fn what_says_the_same_of_the_same_is_supported() {
    for (statement, quote) in [
        ("The bridge of Avon has twelve arches.", "The bridge of Avon has 12 arches, and was built in 1791."),
        ("It was built in 1791.", "The bridge of Avon has 12 arches, and was built in 1791."),
        (
            "The north harbour stays open, but its crane stops at force 8.",
            "The north harbour stays open in a storm; its crane stops at force 8.",
        ),
        (
            "The town has about 12 million visitors a year.",
            "In 2024 the town counted 11,870,234 visitors a year.",
        ),
        ("The lease lasts 3.1 seconds.", "A lease lasts 3.14 seconds."),
        ("Revenue was 1,200 dollars in May.", "In May the revenue was 1,187 dollars."),
        ("The tower is not open to visitors.", "The tower is not open to visitors in winter."),
        ("A planner can't renew an expired lease.", "A planner cannot renew an expired lease."),
        ("The share rose to 45 percent.", "The share rose to 45% in a year."),
        ("The tower is open to visitors.", "Nobody lives there. The tower is open to visitors."),
    ] {
        assert_eq!(support(statement, &[quote]), Support::Supported, "{statement} / {quote}");
    }
    let both = ["The harbour has two piers.", "Its crane lifts 40 tons."];
    assert_eq!(
        support("The harbour has two piers and a crane that lifts 40 tons.", &both),
        Support::Supported
    );
}

#[test]
fn another_value_for_the_same_is_a_contradiction() {
    for (statement, quote, said, is) in [
        ("The bridge of Avon was built in 1957.", "The bridge of Avon was built in 1931.", "1931", "1957"),
        ("The bridge of Avon has 10 arches.", "The bridge of Avon has 12 arches.", "12", "10"),
        ("The crane of the harbour stops at force 9.", "The crane of the harbour never stops.", "", ""),
        ("The tower is open to visitors.", "The tower is not open to visitors.", "not open", "open"),
    ] {
        let found = support(statement, &[quote]);
        match said {
            "" => assert_ne!(found, Support::Supported, "{statement}"),
            said => assert_eq!(found, contradicted(said, is), "{statement} / {quote}"),
        }
    }
}

/// The guarantee: a number that no quote has, and that does not follow by rounding, is never supported.
#[test]
fn a_number_without_a_source_is_never_supported() {
    let quotes = ["The harbour has 2 piers of 120 m and was opened in 1931.", "Its crane lifts 40 tons."];
    for number in ["3", "7", "12", "41", "121", "160", "1932", "1.5", "40.5", "3 million"] {
        let statement = format!("The harbour has {number} piers and its crane lifts tons.");
        assert_ne!(support(&statement, &quotes), Support::Supported, "{statement}");
    }
    for (said, quoted) in [("9783161484103", "9783161484105"), ("0.0000000001", "0.0000000002"), ("-5", "5")]
    {
        let of = |number: &str| format!("The number of the book is {number}.");
        assert_ne!(support(&of(said), &[&of(quoted)]), Support::Supported, "{said}");
    }
    for (said, quoted) in [
        ("The harbour has one pier.", "The harbour has two piers."),
        ("The harbour of Avon has a million lamps.", "The harbour of Avon has 12 lamps."),
        ("Der Hafen von Avon hat fünf alte Kräne.", "Der Hafen von Avon hat drei alte Kräne."),
        ("The harbour has １２ piers.", "The harbour has 14 piers."),
        ("The harbour has ٣ piers of wood.", "The harbour has ٤ piers of wood."),
        ("The pier of Avon is 1.5 m wide.", "The pier of Avon is 15 m wide."),
        ("The cold of Avon is –5 degrees.", "The cold of Avon is 5 degrees."),
    ] {
        assert_ne!(support(said, &[quoted]), Support::Supported, "{said}");
    }
    assert_eq!(support("It has １２ piers.", &["It has twelve piers."]), Support::Supported);
    let many = "1, ".repeat(100_000);
    assert_eq!(support(&many, &[&many]), Support::Open);
    let computed = support("In total the harbour has 160 things.", &quotes);
    assert_eq!(computed, Support::Computed);
}

#[test]
fn what_is_about_something_else_stays_open() {
    for (statement, quote) in [
        ("The bridge of Exe has 12 arches.", "The mill of Avon has 12 windows."),
        ("Tides follow the moon.", "The harbour has two piers."),
        ("Tides follow the moon.", ""),
        ("The director of Acme is Carla Weber.", "The company was founded by the Smith family."),
    ] {
        assert_eq!(support(statement, &[quote]), Support::Open, "{statement} / {quote}");
    }
    assert_eq!(support("Tides follow the moon.", &[]), Support::Open);
    let other =
        support("The chief engineer of the works is Smith.", &["The chief engineer of the works is Weber."]);
    assert_eq!(other, contradicted("Weber", "Smith"));
}

fn differ(a: &str, b: &str) -> Option<[String; 2]> {
    let context = Said::default();
    let [a, b] = [a, b].map(Said::of);
    super::differ(Told { said: &a, context: &context }, Told { said: &b, context: &context })
}

#[test]
fn sources_that_give_another_value_for_the_same_disagree() {
    let planted = [
        ("The bridge of Avon was built in 1931.", "The bridge of Avon was built in 1957.", ["1931", "1957"]),
        ("The bridge of Avon has 12 arches.", "The Avon bridge has fourteen arches.", ["12", "fourteen"]),
        ("The museum opens at 9 am on Sundays.", "On Sundays the museum opens at 10 am.", ["9", "10"]),
        (
            "A night in the north harbour costs 45 crowns.",
            "A night in the north harbour costs €50.",
            ["", ""],
        ),
        ("A ship pays 45 crowns a night.", "A ship pays 50 crowns for a night.", ["45", "50"]),
        (
            "The director of the works is Carla Weber.",
            "The director of the works is Carla Smith.",
            ["Weber", "Smith"],
        ),
        (
            "The tower is open to visitors in winter.",
            "The tower is not open to visitors in winter.",
            ["open", "not open"],
        ),
        (
            "Employees may carry over 240 hours of leave.",
            "Up to 200 hours of leave may be carried over by employees.",
            ["240", "200"],
        ),
        ("The lease lasts 30 seconds.", "A lease lasts for 45 seconds.", ["30", "45"]),
        ("About 40% of the parts are recycled.", "Recycled parts make up 55 percent.", ["40", "55"]),
        (
            "The treaty was signed on 12 March 1998 in Lund.",
            "The treaty was signed on 12 March 1989 in Lund.",
            ["1998", "1989"],
        ),
        ("Backups are kept for 30 days.", "We keep backups for 90 days.", ["30", "90"]),
    ];
    let found = planted.iter().filter(|(a, b, values)| {
        let found = differ(a, b);
        assert!(found.is_none() || found == Some(values.map(str::to_owned)), "{a} {b} {found:?}");
        found.is_some()
    });
    assert!(found.count() >= 9, "{:?}", planted.map(|(a, b, _)| differ(a, b)));
    for (a, b) in [
        ("In 2023 revenue was 10 million.", "In 2024 revenue was 12 million."),
        ("The bridge of Avon has 12 arches.", "The bridge of Exe has 14 arches."),
        ("The bridge of Avon has 12 arches.", "The bridge of Avon is 14 m wide."),
        ("The town has about 12 million visitors.", "The town has 11,870,234 visitors."),
        ("Upgrade tokio to 1.47.0.", "Upgrade tokio to 1.48.0."),
        ("The tower is open.", "The tower is open to visitors."),
    ] {
        assert_eq!(differ(a, b), None, "{a} {b}");
    }
}

proptest::proptest! {
    /// The same for any two numbers.
    #[test]
    fn a_number_is_supported_if_it_is_quoted_or_rounded(quoted in 2_u64..3_000_000, said in 2_u64..3_000_000) {
        let of = |number| format!("The harbour of Avon has {number} lamps.");
        let is_supported = support(&of(said), &[&of(quoted)]) == Support::Supported;
        let zeros = (1..7).take_while(|n| said.is_multiple_of(10_u64.pow(*n))).count() as u32;
        let is_rounded = said.abs_diff(quoted) * 2 <= 10_u64.pow(zeros);
        proptest::prop_assert!(!is_supported || said == quoted || is_rounded, "{} from {}", said, quoted);
        proptest::prop_assert!(said != quoted || is_supported);
    }
}

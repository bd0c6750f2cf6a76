use super::*;

fn passages() -> Vec<Passage> {
    let texts = [
        ("Braxtec", "Braxtec was founded by Ada Wellgard. It makes tram bells."),
        ("Ada Wellgard", "Ada Wellgard was born in Elmport. She liked tram rides."),
        ("Elmport", "The mayor of Elmport is Tom Lund. A museum shows tram bells."),
        ("Holmby", "The mayor of Holmby is Irma Berg. It was founded in spring."),
        ("Trams", "A tram has bells. Many a founder was born near a tram."),
        ("Spring", "In spring a mayor opens the fair of the town."),
    ];
    let passage = |(i, (title, text)): (usize, &(&str, &str))| Passage {
        text: (*text).into(),
        path: format!("{i}.md"),
        heading: (*title).into(),
        position: 0,
        document_id: None,
    };
    texts.iter().enumerate().map(passage).collect()
}

#[test]
fn names_lead_from_one_passage_to_the_next() {
    let (passages, counted) = (passages(), BTreeMap::new());
    let question = Question::of("Who is the mayor of the town in which the founder of Braxtec was born?");
    let mut trails = Trails::new(&passages, &question, 0, &counted);
    let found = trails.best(3, 0.5);
    let led: Vec<(usize, usize, Option<&str>)> =
        found.iter().map(|f| (f.passage, f.hop, f.by.as_deref())).collect();
    assert_eq!(led, [(0, 0, None), (1, 1, Some("Ada Wellgard")), (2, 2, Some("Elmport"))]);
    assert_eq!(trails.open_names(1, 4, 0), ["Ada Wellgard"]);
}

#[test]
fn what_is_worth_little_beside_the_best_is_left_out() {
    let (passages, counted) = (passages(), BTreeMap::new());
    let question = Question::of("When was Braxtec founded?");
    let mut trails = Trails::new(&passages, &question, 0, &counted);
    assert!(trails.best(6, 0.95).len() < trails.best(6, 0.0).len());
    // Words that no passage holds lead nowhere.
    let nowhere = Question::of("Zorblat Quux?");
    assert!(Trails::new(&passages, &nowhere, 0, &counted).best(6, 0.5).is_empty());
}

//! The rows of the table: each strategy and model, and the baselines, over the questions of a set.

use futures::{StreamExt, TryStreamExt, stream};
use tree_agent_proto::v1 as pb;

use crate::bm25::Bm25;
use crate::score::{Answer, Score};
use crate::server::{Project, Server, Settings};
use crate::set::{Question, QuestionSet};

/// A way to answer questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// A tree of agents.
    Tree,
    /// Work in iterations.
    Homework,
    /// A guided search with an overview at its end.
    Search,
    /// One call without a tree: depth 0, so the root executes the whole task itself.
    Single,
}

impl Way {
    /// What the table calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Tree => "tree",
            Way::Homework => "homework",
            Way::Search => "search",
            Way::Single => "one call, no tree",
        }
    }

    /// The settings of its runs. All ways have the same budgets; one call has no depth.
    pub fn settings(self, model: &str, budgets: pb::Budgets) -> Settings {
        let (strategy, max_depth) = match self {
            Way::Tree => (pb::Strategy::Tree, budgets.max_depth),
            Way::Homework => (pb::Strategy::Homework, budgets.max_depth),
            Way::Search => (pb::Strategy::Search, budgets.max_depth),
            Way::Single => (pb::Strategy::Tree, Some(0)),
        };
        Settings { model: model.to_owned(), strategy, budgets: pb::Budgets { max_depth, ..budgets } }
    }
}

/// The answers to all questions of a set, in their order; `parallel` runs at a time. Times are those of one run alone
/// only if that is 1.
///
/// # Errors
/// See [`Server::answer`].
pub async fn answers(
    server: &Server,
    project: &Project,
    set: &QuestionSet,
    settings: &Settings,
    parallel: usize,
) -> anyhow::Result<Vec<Answer>> {
    let asking: Vec<_> = set.questions.iter().map(|q| server.answer(project, &q.text, settings)).collect();
    stream::iter(asking).buffered(parallel).try_collect().await
}

/// The answers of plain BM25: the best `most` passages, as they are.
pub fn plain(set: &QuestionSet, most: usize) -> Vec<Answer> {
    let index = Bm25::new(set);
    let answer = |question: &Question| {
        let begun = std::time::Instant::now();
        let best = index.best(&question.text, most);
        let millis = begun.elapsed().as_secs_f64() * 1e3;
        let bodies: Vec<String> = best.iter().map(|&i| set.passages[i].body()).collect();
        Answer { text: bodies.join("\n"), cited: best.into_iter().collect(), millis, ..Answer::default() }
    };
    set.questions.iter().map(answer).collect()
}

/// The scores of `answers` to all questions, to those at even and to those at odd indices.
pub fn scores(set: &QuestionSet, answers: &[Answer]) -> [Score; 3] {
    let mut scores = [Score::default(), Score::default(), Score::default()];
    for (i, (question, answer)) in set.questions.iter().zip(answers).enumerate() {
        scores[0].add(question, answer);
        scores[1 + i % 2].add(question, answer);
    }
    scores
}

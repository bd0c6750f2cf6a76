//! The vectors of passages, kept in memory for as long as they hold.
//!
//! Vectors of a project are read once and kept until its documents change, or until more of its passages have vectors.
//! The store says whether they still hold ([`VectorMarks`]), so what is found is what is stored, whichever gateway
//! wrote it. Those that were asked for the longest time ago make room for others.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tree_agent_contract::{ProjectId, RunContext};

use crate::error::StoreError;
use crate::ports::{PassageId, Store, VectorMarks};

/// Passages that are read at once.
const PAGE: usize = 8_192;
/// A project that takes longer to read is not read again for each vector that it gets, but after so many times that.
const SLOW: (Duration, u32) = (Duration::from_millis(50), 10);
/// Contexts that do not fit, of which that is known.
const LARGE: usize = 16;

/// The vectors of a model.
pub struct VectorCache {
    store: Arc<dyn Store>,
    model: String,
    dimensions: usize,
    /// Bytes that are kept at the most, and that one search may need.
    most: usize,
    kept: Mutex<Kept>,
    /// One reads at a time, so that memory is bounded.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Kept {
    projects: HashMap<ProjectId, (Arc<ProjectVectors>, u64)>,
    /// The projects of contexts that do not fit, with their revisions.
    large: VecDeque<Vec<(ProjectId, u64)>>,
    /// Searches so far.
    searches: u64,
}

/// The passages of a project, with their vectors.
#[derive(Debug)]
pub struct ProjectVectors {
    revision: u64,
    model_revision: u64,
    /// When that began, and how long it took.
    read: (Instant, Duration),
    dimensions: usize,
    /// Those with a vector, in the order of their ids.
    ids: Vec<PassageId>,
    /// One vector behind the other.
    values: Vec<i8>,
    /// Passages whose text has no meaning for the model, in the same order.
    empty: Vec<PassageId>,
    /// Passages that wait for their vectors.
    pub lacking: u64,
}

impl ProjectVectors {
    /// The passages with their vectors.
    pub fn iter(&self) -> impl Iterator<Item = (PassageId, &[i8])> {
        self.ids.iter().copied().zip(self.values.chunks_exact(self.dimensions))
    }

    /// True if this passage has been embedded.
    pub fn has(&self, id: PassageId) -> bool {
        self.ids.binary_search(&id).is_ok() || self.empty.binary_search(&id).is_ok()
    }

    /// How many passages have been embedded.
    pub fn embedded(&self) -> u64 {
        (self.ids.len() + self.empty.len()) as u64
    }

    fn bytes(&self) -> usize {
        self.ids.len() * size_of::<PassageId>() + self.values.len()
    }

    fn holds(&self, revision: u64, model_revision: u64) -> bool {
        let (begun, took) = self.read;
        let is_recent = took > SLOW.0 && begun.elapsed() < took * SLOW.1;
        self.revision >= revision && (self.lacking == 0 || self.model_revision >= model_revision || is_recent)
    }
}

impl VectorCache {
    /// Keeps at most `most` bytes of vectors of `model`, which have so many dimensions.
    pub fn new(store: Arc<dyn Store>, model: &str, dimensions: usize, most: usize) -> Self {
        let (kept, reading) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { store, model: model.to_owned(), dimensions: dimensions.max(1), most, kept, reading }
    }

    /// The vectors of all projects that the context allows; none if they do not fit into memory.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn of(
        self: &Arc<Self>,
        context: &RunContext,
    ) -> Result<Option<Vec<Arc<ProjectVectors>>>, StoreError> {
        let marks = self.store.vector_marks(&self.model, context).await?;
        if let Some(known) = self.kept().all(&marks) {
            return Ok(known);
        }
        // It goes on when its caller leaves: the next one needs it, too.
        let (cache, context) = (self.clone(), context.clone());
        let read = tokio::spawn(async move { cache.read_all(&context).await });
        read.await.map_err(|error| StoreError::unavailable("the vectors could not be read", error))?
    }

    async fn read_all(&self, context: &RunContext) -> Result<Option<Vec<Arc<ProjectVectors>>>, StoreError> {
        let _reading = self.reading.lock().await;
        // Somebody else may have read them meanwhile.
        let marks = self.store.vector_marks(&self.model, context).await?;
        if let Some(known) = self.kept().all(&marks) {
            return Ok(known);
        }
        let passages = self.store.embedded(&self.model, context, "").await? as usize;
        if passages * (size_of::<PassageId>() + self.dimensions) > self.most {
            let mut kept = self.kept();
            kept.large.truncate(LARGE - 1);
            kept.large.push_front(marks.projects);
            return Ok(None);
        }
        let mut all = Vec::with_capacity(marks.projects.len());
        for (project, revision) in marks.projects {
            let known = self.kept().project(project, revision, marks.model);
            all.push(match known {
                Some(known) => known,
                None => self.read(project, revision, marks.model).await?,
            });
        }
        Ok(Some(all))
    }

    /// Reads the vectors of a project, which are at least as new as these marks.
    async fn read(
        &self,
        project: ProjectId,
        revision: u64,
        model_revision: u64,
    ) -> Result<Arc<ProjectVectors>, StoreError> {
        let begun = Instant::now();
        let mut read = ProjectVectors {
            revision,
            model_revision,
            read: (begun, Duration::ZERO),
            dimensions: self.dimensions,
            ids: Vec::new(),
            values: Vec::new(),
            empty: Vec::new(),
            lacking: 0,
        };
        let (mut after, mut is_last) = (None, false);
        while !is_last {
            let page = self.store.vectors(&self.model, project, after, PAGE).await?;
            is_last = page.len() < PAGE;
            after = page.last().map(|(id, _)| *id);
            for (id, vector) in page {
                match vector {
                    Some(vector) if vector.len() == self.dimensions => {
                        read.ids.push(id);
                        read.values.extend_from_slice(&vector);
                    }
                    Some(_) => read.empty.push(id),
                    None => read.lacking += 1,
                }
            }
        }
        read.ids.shrink_to_fit();
        read.values.shrink_to_fit();
        read.read.1 = begun.elapsed();
        let read = Arc::new(read);
        let mut kept = self.kept();
        let now = kept.searches;
        kept.projects.insert(project, (read.clone(), now));
        kept.make_room(self.most);
        Ok(read)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// What is known of these projects: all of their vectors, or that they do not fit. None if some must be read.
    #[allow(clippy::option_option)]
    fn all(&mut self, marks: &VectorMarks) -> Option<Option<Vec<Arc<ProjectVectors>>>> {
        if self.large.contains(&marks.projects) {
            return Some(None);
        }
        self.searches += 1;
        let projects = marks.projects.iter();
        let all = projects.map(|(project, revision)| self.project(*project, *revision, marks.model));
        all.collect::<Option<Vec<_>>>().map(Some)
    }

    fn project(
        &mut self,
        project: ProjectId,
        revision: u64,
        model_revision: u64,
    ) -> Option<Arc<ProjectVectors>> {
        let (vectors, used) = self.projects.get_mut(&project)?;
        *used = self.searches;
        vectors.holds(revision, model_revision).then(|| vectors.clone())
    }

    /// Removes what was asked for the longest time ago, until the rest fits.
    fn make_room(&mut self, most: usize) {
        let bytes = |kept: &Self| kept.projects.values().map(|(vectors, _)| vectors.bytes()).sum::<usize>();
        while bytes(self) > most {
            let oldest = self.projects.iter().min_by_key(|(_, (_, used))| *used).map(|(project, _)| *project);
            let Some(oldest) = oldest else { return };
            self.projects.remove(&oldest);
        }
    }
}

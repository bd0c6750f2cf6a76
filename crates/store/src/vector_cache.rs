//! The vectors of passages, kept in memory for as long as they hold.
//!
//! Vectors of a project are read once and kept until its documents change, or until more of its passages have vectors.
//! The store says whether they still hold ([`VectorMarks`]), so what is found is what is stored, whichever gateway
//! wrote it. Those that were asked for the longest time ago make room for others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tree_agent_contract::{ProjectId, RunContext};

use crate::error::StoreError;
use crate::ports::{PassageId, Store, VectorMarks};

/// Passages that are read at once.
const PAGE: usize = 8_192;

/// The vectors of a model.
pub struct VectorCache {
    store: Arc<dyn Store>,
    model: String,
    dimensions: usize,
    /// Bytes that are kept at the most, and that one search may need.
    most: usize,
    kept: Mutex<Kept>,
    /// Vectors are read one project at a time, so that memory is bounded.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Kept {
    projects: HashMap<ProjectId, (Arc<ProjectVectors>, u64)>,
    /// Searches so far.
    searches: u64,
}

/// The passages of a project, with their vectors.
#[derive(Debug)]
pub struct ProjectVectors {
    revision: u64,
    model_revision: u64,
    dimensions: usize,
    /// Those with a vector, in the order of their ids.
    ids: Vec<PassageId>,
    /// One vector behind the other.
    values: Vec<i8>,
    /// Passages whose text has no meaning for the model.
    empty: u64,
    /// Passages that wait for their vectors.
    pub lacking: u64,
}

impl ProjectVectors {
    /// The passages with their vectors.
    pub fn iter(&self) -> impl Iterator<Item = (PassageId, &[i8])> {
        self.ids.iter().copied().zip(self.values.chunks_exact(self.dimensions))
    }

    /// True if this passage has a vector.
    pub fn has(&self, id: PassageId) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// How many passages have been embedded.
    pub fn embedded(&self) -> u64 {
        self.ids.len() as u64 + self.empty
    }

    fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<PassageId>() + self.values.capacity()
    }

    fn holds(&self, revision: u64, model_revision: u64) -> bool {
        self.revision >= revision && (self.lacking == 0 || self.model_revision >= model_revision)
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
    pub async fn of(&self, context: &RunContext) -> Result<Option<Vec<Arc<ProjectVectors>>>, StoreError> {
        let VectorMarks { model, projects } = self.store.vector_marks(&self.model, context).await?;
        let search = {
            let mut kept = self.kept();
            kept.searches += 1;
            kept.searches
        };
        let (mut all, mut bytes) = (Vec::with_capacity(projects.len()), 0);
        for (project, revision) in projects {
            let room = self.most.saturating_sub(bytes);
            let Some(vectors) = self.project(project, revision, model, search, room).await? else {
                return Ok(None);
            };
            bytes += vectors.bytes();
            if bytes > self.most {
                return Ok(None);
            }
            all.push(vectors);
        }
        Ok(Some(all))
    }

    async fn project(
        &self,
        project: ProjectId,
        revision: u64,
        model_revision: u64,
        search: u64,
        room: usize,
    ) -> Result<Option<Arc<ProjectVectors>>, StoreError> {
        let holds = |kept: &mut Kept| {
            let (vectors, used) = kept.projects.get_mut(&project)?;
            *used = search;
            vectors.holds(revision, model_revision).then(|| vectors.clone())
        };
        if let Some(vectors) = holds(&mut self.kept()) {
            return Ok(Some(vectors));
        }
        let _reading = self.reading.lock().await;
        // Somebody else may have read them meanwhile.
        if let Some(vectors) = holds(&mut self.kept()) {
            return Ok(Some(vectors));
        }
        let Some(mut read) = self.read(project, room).await? else { return Ok(None) };
        // What was read is at least as new as these marks.
        (read.revision, read.model_revision) = (revision, model_revision);
        let read = Arc::new(read);
        let mut kept = self.kept();
        kept.projects.insert(project, (read.clone(), search));
        kept.make_room(self.most);
        Ok(Some(read))
    }

    /// Reads the vectors of a project; none if they take more than `room`.
    async fn read(&self, project: ProjectId, room: usize) -> Result<Option<ProjectVectors>, StoreError> {
        let mut read = ProjectVectors {
            revision: 0,
            model_revision: 0,
            dimensions: self.dimensions,
            ids: Vec::new(),
            values: Vec::new(),
            empty: 0,
            lacking: 0,
        };
        let mut after = None;
        loop {
            let page = self.store.vectors(&self.model, project, after, PAGE).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|(id, _)| *id);
            read.ids.reserve_exact(page.len());
            read.values.reserve_exact(page.len() * self.dimensions);
            for (id, vector) in page {
                match vector {
                    Some(vector) if vector.len() == self.dimensions => {
                        read.ids.push(id);
                        read.values.extend_from_slice(&vector);
                    }
                    Some(_) => read.empty += 1,
                    None => read.lacking += 1,
                }
            }
            if read.bytes() > room {
                return Ok(None);
            }
            if is_last {
                return Ok(Some(read));
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
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

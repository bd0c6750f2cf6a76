//! A sentence transformer in ONNX form, run in this process on one thread.

use std::sync::Arc;

use async_trait::async_trait;
use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool};
use rten_tensor::NdTensor;
use rten_tensor::prelude::*;
use tokenizers::{Tokenizer, TruncationParams};
use tokio::sync::Semaphore;
use tree_agent_contract::text::prefix;

use crate::files::{KnownModel, ModelFiles};
use crate::{EmbedError, Embedder, quantised};

/// Tokens of a text that count. The model learned from short passages; the time grows faster than the text.
const TOKENS: usize = 256;
/// Bytes of a text that are looked at; as many tokens have far fewer.
const BYTES: usize = 16 * 1024;

/// A local model.
pub(crate) struct Local {
    key: String,
    dimensions: usize,
    loaded: Arc<Loaded>,
    /// Texts take turns one by one, so that a question waits for one passage and not for a batch of them.
    turn: Arc<Semaphore>,
}

/// What one inference needs.
struct Loaded {
    tokenizer: Tokenizer,
    model: Model,
    /// The nodes of the token ids, of the mask and of the types of tokens.
    inputs: [NodeId; 3],
    output: NodeId,
    thread: Arc<ThreadPool>,
}

impl Local {
    /// Loads the model, which takes a moment. One text is tried, so what is loaded works.
    pub(crate) fn load(known: &KnownModel, files: ModelFiles) -> Result<Self, EmbedError> {
        let unusable =
            |error: &dyn std::fmt::Display| EmbedError(format!("{} cannot be used: {error}", known.name));
        let mut tokenizer = Tokenizer::from_bytes(&files.tokenizer).map_err(|e| unusable(&e))?;
        let cut = TruncationParams { max_length: TOKENS, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(cut)).map_err(|e| unusable(&e))?.with_padding(None);
        let model = ModelOptions::with_all_ops().load(files.model).map_err(|e| unusable(&e))?;
        let input = |name| model.node_id(name).map_err(|e| unusable(&e));
        let inputs = [input("input_ids")?, input("attention_mask")?, input("token_type_ids")?];
        let output = input("last_hidden_state")?;
        let thread = Arc::new(ThreadPool::with_num_threads(1));
        let loaded = Loaded { tokenizer, model, inputs, output, thread };
        let dimensions = loaded.vector("test").map_err(|e| unusable(&e))?.len();
        Ok(Self { key: known.key(), dimensions, loaded: Arc::new(loaded), turn: Arc::new(Semaphore::new(1)) })
    }
}

#[async_trait]
impl Embedder for Local {
    fn model(&self) -> &str {
        &self.key
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// A batch would not be faster on one thread.
    fn at_once(&self) -> usize {
        1
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<i8>>, EmbedError> {
        let broke =
            |error: &dyn std::fmt::Display| EmbedError(format!("the model {} failed: {error}", self.key));
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            let turn = self.turn.clone().acquire_owned().await.map_err(|e| broke(&e))?;
            let loaded = self.loaded.clone();
            let vector = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                loaded.vector(&text)
            });
            vectors.push(vector.await.map_err(|e| broke(&e))?.map_err(|e| broke(&e))?);
        }
        Ok(vectors)
    }
}

impl Loaded {
    /// The mean over the tokens of what the model says of each.
    fn vector(&self, text: &str) -> Result<Vec<i8>, Box<dyn std::error::Error + Send + Sync>> {
        let encoding = self.tokenizer.encode(prefix(text, BYTES), true)?;
        let tokens = encoding.get_ids().len();
        let row = |values: &[u32]| {
            NdTensor::<i32, 2>::from_data([1, tokens], values.iter().map(|id| *id as i32).collect::<Vec<_>>())
        };
        let values = [encoding.get_ids(), encoding.get_attention_mask(), encoding.get_type_ids()];
        let inputs =
            self.inputs.iter().zip(values).map(|(node, values)| (*node, row(values).into())).collect();
        let mut options = RunOptions::default();
        options.thread_pool = Some(self.thread.clone());
        let [states] = self.model.run_n(inputs, [self.output], Some(options))?;
        let states: NdTensor<f32, 3> = states.try_into()?;
        let dimensions = states.size(2);
        let mut sum = vec![0.0; dimensions];
        for state in states.to_vec().chunks(dimensions) {
            sum.iter_mut().zip(state).for_each(|(sum, x)| *sum += x);
        }
        quantised(&sum).ok_or_else(|| "a text got no vector".into())
    }
}

#[cfg(test)]
mod tests;

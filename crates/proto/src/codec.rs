//! The codec of every generated client and server.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// Initial size of a call's buffer in each direction; it grows as needed. tonic's default of 8 KiB would be most of the
/// memory that a driver or gateway needs for an open, silent call, and calls of models are silent for long.
const BUFFER_BYTES: usize = 512;
/// Bytes that are gathered before they are sent on; tonic's default.
const YIELD_BYTES: usize = 32 * 1024;

/// Protobuf by prost, with small buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallBuffers<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallBuffers<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallBuffers<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }
}

//! Which shard of a distributed Postgres a run is on, so that an append to runs of one shard is a transaction of that
//! shard.

use std::collections::BTreeMap;

use tree_agent_contract::RunId;

use crate::ports::RunAppend;

/// The places of the appends in the list, by the shards of their runs.
pub(super) fn by_shard(appends: &[RunAppend], shards: u32) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for (place, append) in appends.iter().enumerate() {
        groups.entry(shard_of(append.run_id, shards)).or_default().push(place);
    }
    groups.into_values().collect()
}

/// The shard of a run, from 0: the values of Postgres' function `uuid_hash`, cut into ranges of the same length. Citus
/// places the rows of a table that is distributed by a uuid in this way.
pub(super) fn shard_of(run: RunId, shards: u32) -> u32 {
    // The hash is a signed number, and the ranges begin at the least one.
    let from_least = uuid_hash(*run.0.as_bytes()) ^ 0x8000_0000;
    let length = (1 << 32) / u64::from(shards.max(1));
    // The last range has what the division leaves.
    ((u64::from(from_least) / length) as u32).min(shards.max(1) - 1)
}

/// Postgres' hash of 16 bytes: Bob Jenkins' lookup3 in the form that Postgres has kept since version 8.4.
fn uuid_hash(bytes: [u8; 16]) -> u32 {
    let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
    let start = 0x9e37_79b9_u32.wrapping_add(16).wrapping_add(3_923_095);
    let (mut a, mut b, mut c) =
        (start.wrapping_add(word(0)), start.wrapping_add(word(4)), start.wrapping_add(word(8)));
    // All three words are mixed six times, each time with another one in the place of a.
    for turn in [4, 6, 8, 16, 19, 4] {
        a = a.wrapping_sub(c) ^ c.rotate_left(turn);
        c = c.wrapping_add(b);
        (a, b, c) = (b, c, a);
    }
    a = a.wrapping_add(word(12));
    for turn in [14, 11, 25, 16, 4, 14, 24] {
        c = (c ^ b).wrapping_sub(b.rotate_left(turn));
        (a, b, c) = (b, c, a);
    }
    b
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn shards_have_the_same_length_and_the_last_one_the_rest() {
        for shards in [1, 2, 3, 32, 1_000] {
            let mut runs = vec![0; shards as usize];
            for n in 0..100_000_u128 {
                runs[shard_of(RunId(Uuid::from_u128(n << 64 | 7)), shards) as usize] += 1;
            }
            let mean = 100_000 / shards as i32;
            assert!(runs.iter().all(|n: &i32| (n - mean).pow(2) < 40 * mean), "{shards}: {runs:?}");
        }
    }
}

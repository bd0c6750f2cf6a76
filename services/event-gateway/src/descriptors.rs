//! The API as data: which methods and messages there are.

use std::sync::OnceLock;

use prost_reflect::DescriptorPool;

/// Every file of the API.
pub(crate) fn pool() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| {
        DescriptorPool::decode(tree_agent_proto::DESCRIPTORS).expect("descriptors that are compiled in")
    })
}

/// The field of `treeagent.v1.Event` that holds the payload of each event type, by the type's name.
pub(crate) fn event_fields() -> impl Iterator<Item = (String, u32)> {
    let event = pool().get_message_by_name("treeagent.v1.Event").expect("the event is part of the API");
    let body = event.oneofs().find(|oneof| oneof.name() == "body").expect("an event has a body");
    // `opaque` is for every type that has no field.
    let fields = body.fields().filter(|field| field.name() != "opaque");
    let fields: Vec<_> = fields.map(|field| (format!("tree.{}", field.name()), field.number())).collect();
    fields.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tree_agent_contract::EventBody;

    #[test]
    fn every_event_type_has_a_field() {
        let mut fields: Vec<String> = event_fields().map(|(name, _)| name).collect();
        let mut types = EventBody::TYPES.to_vec();
        fields.sort_unstable();
        types.sort_unstable();
        assert_eq!(fields, types);
    }
}

//! What answers for a role: the offline model and the scripted model.

package metadata

// Records emits the records whose replay on the empty image gives this image again, in the order in which Kafka writes a
// snapshot (MetadataImage.write): features first, metadata.version before the others. The records must not be changed.
func (i *Image) Records(emit func(Record)) {
	level := i.Features.MetadataVersion()
	i.Features.records(emit)
	i.Cluster.records(level, emit)
	i.Topics.records(emit)
	i.Configs.records(emit)
	i.ClientQuotas.records(emit)
	i.ProducerIDs.records(emit)
	for _, r := range i.Acls.entries.All() {
		emit(r)
	}
	if level >= levelScram {
		for _, r := range i.Scram.credentials.All() {
			emit(r)
		}
	}
	if level >= levelDelegationTokens {
		for _, r := range i.DelegationTokens.tokens.All() {
			emit(r)
		}
	}
}

// EncodeRecords is Records with every record encoded at the version that the image's metadata.version asks for. The
// slice given to emit is the callee's.
func (i *Image) EncodeRecords(emit func(value []byte)) {
	level := i.Features.MetadataVersion()
	i.Records(func(r Record) { emit(Encode(nil, r, Latest(r, level))) })
}

package metadata

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"moldau/internal/kafka"
)

// ProducerIDs is how far producer ids are handed out.
type ProducerIDs struct {
	Next int64 // the first that is free
}

func (p ProducerIDs) records(emit func(Record)) {
	if p.Next > 0 {
		emit(&ProducerIDsRecord{BrokerID: kafka.NoNode, BrokerEpoch: -1, NextProducerID: p.Next})
	}
}

// ClientQuotas is the quotas of users, clients and addresses.
type ClientQuotas struct {
	entities Tree[string, *QuotaEntity]
}

// QuotaEntity is the quotas of one entity. Neither slice nor map may be changed.
type QuotaEntity struct {
	Parts  []QuotaEntityPart
	Values map[string]float64 // by quota key; never empty
}

// All yields the entities that have a quota, in a fixed order.
func (q ClientQuotas) All() iter.Seq[*QuotaEntity] {
	return func(yield func(*QuotaEntity) bool) {
		for _, e := range q.entities.All() {
			if !yield(e) {
				return
			}
		}
	}
}

// quotaKey gives every entity one text, whatever the order of its parts.
func quotaKey(parts []QuotaEntityPart) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		if p.EntityName == nil {
			texts[i] = p.EntityType + "\x00"
		} else {
			texts[i] = p.EntityType + "\x01" + *p.EntityName
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, "\x02")
}

func (q ClientQuotas) with(r *ClientQuotaRecord) ClientQuotas {
	key := quotaKey(r.Entity)
	old, ok := q.entities.Get(key)
	next := &QuotaEntity{Parts: r.Entity}
	if ok {
		next = &QuotaEntity{Parts: old.Parts, Values: maps.Clone(old.Values)}
	}
	if r.Remove {
		delete(next.Values, r.Key)
		if len(next.Values) == 0 {
			q.entities = q.entities.without(key)
			return q
		}
	} else {
		if next.Values == nil {
			next.Values = make(map[string]float64, 1)
		}
		next.Values[r.Key] = r.Value
	}
	q.entities = q.entities.with(key, next)
	return q
}

func (q ClientQuotas) records(emit func(Record)) {
	for _, e := range q.entities.All() {
		for _, key := range slices.Sorted(maps.Keys(e.Values)) {
			emit(&ClientQuotaRecord{Entity: e.Parts, Key: key, Value: e.Values[key]})
		}
	}
}

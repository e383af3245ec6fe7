package controller

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// refuse turns a fault of a whole request into the response that carries it. Errors that are no fault of the request, such
// as NOT_CONTROLLER, stay errors.
func refuse(request kmsg.Request, err error) (kmsg.Response, error) {
	if _, ok := errors.AsType[*fault](err); !ok {
		return nil, err
	}
	code, message := faultOf(err)
	switch q := request.(type) {
	case *kmsg.CreateTopicsRequest:
		response := q.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, t := range q.Topics {
			response.Topics = append(response.Topics, refusedTopic(t.Topic, err))
		}
		return response, nil
	case *kmsg.DeleteTopicsRequest:
		response := q.ResponseKind().(*kmsg.DeleteTopicsResponse)
		for _, name := range q.TopicNames {
			response.Topics = append(response.Topics, kmsg.DeleteTopicsResponseTopic{Topic: &name, ErrorCode: code, ErrorMessage: message})
		}
		for _, t := range q.Topics {
			response.Topics = append(response.Topics,
				kmsg.DeleteTopicsResponseTopic{Topic: t.Topic, TopicID: t.TopicID, ErrorCode: code, ErrorMessage: message})
		}
		return response, nil
	case *kmsg.AlterConfigsRequest:
		response := q.ResponseKind().(*kmsg.AlterConfigsResponse)
		for _, r := range q.Resources {
			response.Resources = append(response.Resources, kmsg.AlterConfigsResponseResource{
				ResourceType: r.ResourceType, ResourceName: r.ResourceName, ErrorCode: code, ErrorMessage: message,
			})
		}
		return response, nil
	case *kmsg.IncrementalAlterConfigsRequest:
		response := q.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		for _, r := range q.Resources {
			response.Resources = append(response.Resources, kmsg.IncrementalAlterConfigsResponseResource{
				ResourceType: r.ResourceType, ResourceName: r.ResourceName, ErrorCode: code, ErrorMessage: message,
			})
		}
		return response, nil
	case *kmsg.CreatePartitionsRequest:
		response := q.ResponseKind().(*kmsg.CreatePartitionsResponse)
		for _, t := range q.Topics {
			response.Topics = append(response.Topics,
				kmsg.CreatePartitionsResponseTopic{Topic: t.Topic, ErrorCode: code, ErrorMessage: message})
		}
		return response, nil
	case *kmsg.AlterPartitionAssignmentsRequest:
		response := q.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
		response.ErrorCode, response.ErrorMessage = code, message
		return response, nil
	case *kmsg.BrokerRegistrationRequest:
		response := q.ResponseKind().(*kmsg.BrokerRegistrationResponse)
		response.ErrorCode, response.BrokerEpoch = code, -1
		return response, nil
	case *kmsg.ControllerRegistrationRequest:
		response := q.ResponseKind().(*kmsg.ControllerRegistrationResponse)
		response.ErrorCode, response.ErrorMessage = code, message
		return response, nil
	}
	return nil, err
}

func refusedTopic(name string, err error) kmsg.CreateTopicsResponseTopic {
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.NumPartitions, out.ReplicationFactor = name, -1, -1
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	out.ErrorCode, out.ErrorMessage = faultOf(err)
	return out
}

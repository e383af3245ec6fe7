package znode

import "strconv"

// Code is how ZooKeeper says what became of a request (KeeperException.Code).
type Code int32

// The codes that clients may get.
const (
	OK                      Code = 0
	SystemError             Code = -1
	RuntimeInconsistency    Code = -2
	DataInconsistency       Code = -3
	ConnectionLoss          Code = -4 // clients wait for a connection, which they have, and ask again
	MarshallingError        Code = -5
	Unimplemented           Code = -6
	OperationTimeout        Code = -7
	BadArguments            Code = -8
	APIError                Code = -100
	NoNode                  Code = -101
	NoAuth                  Code = -102
	BadVersion              Code = -103
	NoChildrenForEphemerals Code = -108
	NodeExists              Code = -110
	NotEmpty                Code = -111
	SessionExpired          Code = -112
	InvalidACL              Code = -114
	AuthFailed              Code = -115
	SessionMoved            Code = -118
)

var codeNames = map[Code]string{
	OK: "OK", SystemError: "SystemError", RuntimeInconsistency: "RuntimeInconsistency", DataInconsistency: "DataInconsistency",
	ConnectionLoss: "ConnectionLoss", MarshallingError: "MarshallingError", Unimplemented: "Unimplemented",
	OperationTimeout: "OperationTimeout", BadArguments: "BadArguments", APIError: "APIError", NoNode: "NoNode", NoAuth: "NoAuth",
	BadVersion: "BadVersion", NoChildrenForEphemerals: "NoChildrenForEphemerals", NodeExists: "NodeExists", NotEmpty: "NotEmpty",
	SessionExpired: "SessionExpired", InvalidACL: "InvalidACL", AuthFailed: "AuthFailed", SessionMoved: "SessionMoved",
}

// Error is the code's name in ZooKeeper.
func (c Code) Error() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "ZooKeeper error " + strconv.Itoa(int(c))
}

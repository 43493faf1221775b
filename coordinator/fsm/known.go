package fsm

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// known refuses a message that has fields this version does not know, at any
// depth: to ignore them would let this node's state differ from the others'.
func known(m proto.Message) error { return knownFields(m.ProtoReflect()) }

func knownFields(m protoreflect.Message) error {
	if n := len(m.GetUnknown()); n > 0 {
		return fmt.Errorf("%w: %s has %d bytes of unknown fields", ErrFormat, m.Descriptor().Name(), n)
	}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				if err = knownFields(v.List().Get(i).Message()); err != nil {
					return false
				}
			}
		default:
			err = knownFields(v.Message())
		}
		return err == nil
	})
	return err
}

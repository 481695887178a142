package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// DecodeJSON reads one JSON value. Keys that into has no place for are errors, and so
// is more text behind the value: what was misspelt must not count as left out.
func DecodeJSON(data []byte, into any) error {
	dec := strictDecoder(data)
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more after the JSON value: want its end")
	}
	return nil
}

// strictDecoder reads several values.
func strictDecoder(data []byte) *json.Decoder {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec
}

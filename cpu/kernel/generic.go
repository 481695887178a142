package kernel

var generic = Table{Name: "generic"}

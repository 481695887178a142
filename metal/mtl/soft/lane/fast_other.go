package lane

// fast are the forms in assembly, nil where there is none.
var fast [NumOps]Fn

package san

// Report collects findings.
type Report struct {
	Mode     Mode
	Findings []*Finding
}

// Finding is one diagnosed fault.
type Finding struct {
	Kind string
}

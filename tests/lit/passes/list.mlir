// docs/passes.md is the list that runs.
// RUN: heddle-opt --passes | diff %S/../../../docs/passes.md -

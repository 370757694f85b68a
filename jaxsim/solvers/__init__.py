"""Small batched solvers: tree-sparse factorisation, projected Gauss-Seidel, interior-point QPs."""

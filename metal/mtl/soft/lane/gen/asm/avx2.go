package main

func avx2Family() {}

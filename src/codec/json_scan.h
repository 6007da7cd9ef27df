// Is this text one strict JSON value? A pass without I/O and without allocation, before a parser
// that is more lenient than we are builds a tree of it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define JSON_SCAN_DEPTH 32

struct json_scan {
	struct str value; // without the white space around it
	size_t members;	  // keys in all objects together: a parser that merges them counts fewer
	size_t values;	  // of every kind, containers too: what a tree of it would cost
	const char *fault;
	size_t at; // where the fault lies
};

// False: `fault` and `at` say why and where; else `value`, `members` and `values` are set.
bool json_scan(struct str text, struct json_scan *out);

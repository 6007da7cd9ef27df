// Checks whether a text is one strict JSON value, without I/O and allocation, before a more lenient
// parser builds a tree of it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define JSON_SCAN_DEPTH 32

struct json_scan {
	struct str value; // without the white space around it
	size_t members;	  // keys in all objects together: a parser that merges duplicates counts
			  // fewer
	size_t values;	  // of every type, containers included: the size of a tree
	const char *fault;
	size_t at; // position of the fault
};

// False: `fault` and `at` are set; else `value`, `members` and `values` are.
bool json_scan(struct str text, struct json_scan *out);
// The same for a text that is not to become a tree: up to `depth` levels, integers of any size.
#define JSON_SCAN_DEPTH_MAX 256
bool json_scan_within(struct str text, int depth, struct json_scan *out);

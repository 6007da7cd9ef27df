// What a visitor is told when there is nothing to relay: a page for browsers, JSON for programs.
#pragma once

#include "http/http.h"
#include "protocol/fileop.h"

struct page {
	int status;
	const char *code;  // for programs: "INVALID_TOKEN"
	const char *title; // for people
	const char *text;  // one sentence more
	uint16_t port;	   // what was asked for; 0: it is not told
	const struct fileop_port *listening;
	size_t listening_count;
	bool waits;  // it may work in a moment: the page asks again by itself
	int retry_s; // after which time it may be asked again; 0: it is not told
};

fallible page_answer(struct http *x, const struct page *page);

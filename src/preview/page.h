// The answer when there is nothing to relay: a page for browsers, JSON for programs.
#pragma once

#include "http/http.h"
#include "protocol/fileop.h"

struct page {
	int status;
	const char *code;  // for programs: "INVALID_TOKEN"
	const char *title; // for people
	const char *text;  // one more sentence
	uint16_t port;	   // the requested port; 0: not shown
	const struct fileop_port *listening;
	size_t listening_count;
	bool waits;  // it may work in a moment: the page reloads itself
	int retry_s; // Retry-After; 0: none
};

fallible page_answer(struct http *x, const struct page *page);

// The queue of notices: each goes to one sink, until the sink has taken it or a day has passed. The
// queue is stored, so that a killed daemon loses none; a notice keeps its id in every attempt.
#pragma once

#include "monitor/rules.h"
#include "store/alerts.h"
#include "types/sink.h"

struct notices;
struct trust;

struct notices_options {
	struct loop *loop;
	struct store *store;
	const struct sink *sinks; // borrowed, as are their secrets
	const struct str *secrets;
	size_t sink_count;
	struct trust *trust;
	struct str hosts;
	const char *link;
	// Called after an attempt to deliver: `alerts` is a JSON array of those it was about.
	void (*delivered)(void *arg, const char *sink, const char *outcome, struct str alerts);
	void *arg;
};

struct notices *notices_new(const struct notices_options *options);
void notices_load(struct notices *notices, const struct store_notice *rows, size_t count);
void notices_start(struct notices *notices); // one task for each sink

// Drafts a notice about alerts of one rule, for each sink that gets it; `items` are JSON objects,
// separated by commas. A draft joins a notice of the same rule that is still waiting. Nothing is
// sent before notices_accept().
#define NOTICES_DRAFTS_MAX 64
struct notice;
struct notices_drafts {
	struct notice *at[NOTICES_DRAFTS_MAX];
	struct store_notice rows[NOTICES_DRAFTS_MAX]; // to be committed
	size_t count;
};
void notices_draft(struct notices *notices, const struct rule *rule, enum alert_notice kind,
		   bool has_objects, struct str items, struct notices_drafts *drafts);
void notices_accept(struct notices *notices, struct notices_drafts *drafts);
void notices_discard(struct notices_drafts *drafts);

uint64_t notices_failing(const struct notices *notices); // sinks whose last attempt failed
// At once, without the queue. Waits.
fallible notices_test(struct notices *notices, const struct sink *sink);

// Alertmanager gets all firing alerts, again and again: `write` adds them to an array.
void notices_push(struct notices *notices, void (*write)(struct json_out *out, void *arg),
		  void *arg);
void notices_poke(struct notices *notices); // the alerts have changed: push soon

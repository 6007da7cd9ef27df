// The table of evidence, row by row.
#include "agent/admission.h"

#include <errno.h>
#include <stdio.h>

#include "tap.h"

#define MB (1ull << 20)

static struct admission_facts enough(void)
{
	return (struct admission_facts){
		.measured = true,
		.available = 4096 * MB,
		.threshold = 2048 * MB,
		.host_free = 4096 * MB,
		.host_floor = 256 * MB,
		.host_sound = true,
	};
}

static bool is(const struct admission_facts *facts, enum admission_verdict verdict, bool destroys)
{
	struct admission_judgement got = admission_judge(facts);

	return got.verdict == verdict && got.may_destroy == destroys;
}

TEST(accepts, "enough space is accepted, before and after a cleanup")
{
	struct admission_facts facts = enough();

	CHECK(is(&facts, ADMISSION_ACCEPT, false));
	facts.cleaned = true;
	CHECK(is(&facts, ADMISSION_ACCEPT, false));
	facts.available = facts.threshold;
	CHECK(is(&facts, ADMISSION_ACCEPT, false));
}

TEST(low, "too little is cleaned up once, then rejected, and destroys nothing")
{
	struct admission_facts facts = enough();

	facts.available = facts.threshold - 1;
	CHECK(is(&facts, ADMISSION_CLEAN, false));
	facts.cleaned = true;
	CHECK(is(&facts, ADMISSION_REJECTED, false));
}

TEST(inodes, "fewer than 5% of inodes are too few; where there is no bound, none is asked")
{
	struct admission_facts facts = enough();

	facts.inodes = 1000;
	facts.inodes_free = 49;
	CHECK(is(&facts, ADMISSION_CLEAN, false));
	facts.inodes_free = 50;
	CHECK(is(&facts, ADMISSION_ACCEPT, false));
	facts.inodes = facts.inodes_free = 0;
	CHECK(is(&facts, ADMISSION_ACCEPT, false));
}

TEST(host, "the host's own floor counts")
{
	struct admission_facts facts = enough();

	facts.host_free = facts.host_floor - 1;
	CHECK(is(&facts, ADMISSION_CLEAN, false));
}

TEST(unknown, "a measurement that failed is unknown, whatever the reason, and destroys nothing")
{
	static const int errors[] = {0, EACCES, ETIMEDOUT, ENOENT, EDQUOT, EINVAL};
	struct admission_facts facts = {.threshold = MB, .host_sound = true};

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		facts.errnum = errors[i];
		CHECK(is(&facts, ADMISSION_UNKNOWN, false));
	}
}

TEST(unusable, "ENOSPC, EIO and EROFS of the own image prove it unusable, if the host is sound")
{
	static const int errors[] = {ENOSPC, EIO, EROFS};

	for (size_t i = 0; i < 3; i++) {
		struct admission_facts facts = enough();

		facts.errnum = errors[i];
		CHECK(is(&facts, ADMISSION_UNUSABLE, true));
		facts.host_sound = false;
		CHECK(is(&facts, ADMISSION_UNUSABLE, false));
	}
}

TEST(quota, "an exhausted quota of the tenant never justifies destroying anything")
{
	struct admission_facts facts = enough();

	facts.errnum = EDQUOT;
	facts.available = 0;
	facts.cleaned = true;
	CHECK(is(&facts, ADMISSION_REJECTED, false));
}

TEST(setup, "a setup that cannot be made fails it, and may rebuild that sandbox alone")
{
	for (int i = 0; i < 3; i++) {
		struct admission_facts facts = enough();

		facts.no_workspace = i == 0;
		facts.control_failed = i == 1;
		facts.probe_hung = i == 2;
		CHECK(is(&facts, ADMISSION_FAILED, true));
		facts.host_sound = false;
		CHECK(is(&facts, ADMISSION_FAILED, false));
	}
}

// The facts that an error sets: w, c, p; "-": none.
static const char *facts_of(enum admission_step step, struct err *failed)
{
	static char words[4];
	struct admission_facts facts = {0};
	auto_err err = failed;

	admission_classify(step, err, &facts);
	snprintf(words, sizeof(words), "%s%s%s", facts.no_workspace ? "w" : "",
		 facts.control_failed ? "c" : "", facts.probe_hung ? "p" : "");
	return words[0] ? words : "-";
}

TEST(classes, "what a step of the setup met decides what is known of the sandbox")
{
	CHECK_STR(facts_of(ADMISSION_PROBE, err_new(TIMEOUT, "timeout", "x")), "p");
	CHECK_STR(facts_of(ADMISSION_PROBE, err_new(INTERNAL, "file_worker_lost", "x")), "c");
	CHECK_STR(facts_of(ADMISSION_PROBE, err_new(EXHAUSTED, "too_many_processes", "x")), "-");
	CHECK_STR(facts_of(ADMISSION_PROBE, err_new(UNAVAILABLE, "box_lost", "x")), "-");
	CHECK_STR(facts_of(ADMISSION_PROBE, err_new(CANCELLED, "cancelled", "x")), "-");
	CHECK_STR(facts_of(ADMISSION_WORKSPACE, err_new(INVALID, "not_directory", "x")), "w");
	CHECK_STR(facts_of(ADMISSION_WORKSPACE, err_new(INTERNAL, "fs_error", "x")), "w");
	CHECK_STR(facts_of(ADMISSION_WORKSPACE, err_new(INTERNAL, "file_worker_lost", "x")), "c");
	CHECK_STR(facts_of(ADMISSION_WORKSPACE, err_new(NO_SPACE, "no_space", "x")), "-");
	CHECK_STR(facts_of(ADMISSION_WORKSPACE, err_new(TIMEOUT, "timeout", "x")), "-");
}

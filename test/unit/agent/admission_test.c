// The table of evidence, row by row.
#include "agent/admission.h"

#include <errno.h>

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
	struct admission_facts facts = enough();

	facts.no_workspace = true;
	CHECK(is(&facts, ADMISSION_FAILED, true));
	facts.host_sound = false;
	CHECK(is(&facts, ADMISSION_FAILED, false));
}

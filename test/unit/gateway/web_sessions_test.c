#include "gateway/web_sessions.h"

#include "base/clock.h"
#include "tap.h"

#define MINUTE 60000ll

struct stage {
	struct loop *loop;
	struct store *store;
	struct manager manager;
	struct keyring *ring;
	uint8_t root[SECRET_HASH];
	struct web_sessions *web;
	int64_t base;
};

static void stage_open(struct stage *stage)
{
	memset(stage, 0, sizeof(*stage));
	CHECK_OK(loop_new(&stage->loop));
	CHECK_OK(
		store_open(&(struct store_options){.loop = stage->loop, .dir = -1}, &stage->store));
	stage->manager.loop = stage->loop;
	accounts_init(&stage->manager.accounts);
	stage->ring = keyring_new(&stage->manager, stage->store);
	stage->web = web_sessions_new(&stage->manager, stage->store, stage->ring, stage->root);
	stage->base = clock_steady_base();
}

static void stage_later(const struct stage *stage, int64_t ms)
{
	clock_steady_set(stage->base + ms);
}

static void stage_close(struct stage *stage)
{
	clock_steady_set(stage->base);
	web_sessions_free(stage->web);
	keyring_free(stage->ring);
	accounts_done(&stage->manager.accounts);
	store_close(stage->store);
	loop_free(stage->loop);
}

static const struct web_ask all = {.scopes = WHO_MAY_ALL};

TEST(idle, "a session ends after 30 minutes without a request")
{
	char text[WEB_TOKEN_LEN + 1];
	struct stage stage;
	struct who who;

	stage_open(&stage);
	CHECK_OK(web_sessions_make(stage.web, &WHO_KEYHOLDER, &all, &who, text));
	CHECK(who.role == WHO_OPERATOR && who.web[0]);
	stage_later(&stage, 29 * MINUTE);
	CHECK(web_sessions_who(stage.web, str_of(text), &who));
	stage_later(&stage, 58 * MINUTE);
	CHECK(web_sessions_who(stage.web, str_of(text), &who));
	stage_later(&stage, 88 * MINUTE + 1000);
	CHECK(!web_sessions_who(stage.web, str_of(text), &who));
	CHECK(!web_sessions_who(stage.web, STR("cvs_"), &who));
	stage_close(&stage);
}

TEST(age, "and after 12 hours, however much it is used")
{
	char text[WEB_TOKEN_LEN + 1];
	struct stage stage;
	struct who who;

	stage_open(&stage);
	CHECK_OK(web_sessions_make(stage.web, &WHO_KEYHOLDER, &all, &who, text));
	for (int at = 20; at < 12 * 60; at += 20) {
		stage_later(&stage, at * MINUTE);
		CHECK(web_sessions_who(stage.web, str_of(text), &who));
	}
	stage_later(&stage, 12 * 60 * MINUTE);
	CHECK(!web_sessions_who(stage.web, str_of(text), &who));
	stage_close(&stage);
}

TEST(links, "a code signs in once, within a minute")
{
	char code[WEB_CODE_LEN + 1], text[WEB_TOKEN_LEN + 1];
	struct web_ask reader = {.scopes = WHO_MAY_READ};
	struct stage stage;
	int64_t expires_ms;
	struct who who;
	bool known;

	stage_open(&stage);
	CHECK_OK(web_sessions_link(stage.web, &WHO_KEYHOLDER, &reader, code, &expires_ms));
	stage_later(&stage, WEB_CODE_MS - 1000);
	CHECK_OK(web_sessions_redeem(stage.web, str_of(code), &known, &who, text));
	CHECK(known && who.scopes == WHO_MAY_READ && who.role == WHO_TENANT);
	CHECK_OK(web_sessions_redeem(stage.web, str_of(code), &known, &who, text));
	CHECK(!known);
	CHECK_OK(web_sessions_link(stage.web, &WHO_KEYHOLDER, &reader, code, &expires_ms));
	stage_later(&stage, 2 * WEB_CODE_MS);
	CHECK_OK(web_sessions_redeem(stage.web, str_of(code), &known, &who, text));
	CHECK(!known);
	stage_close(&stage);
}

TEST(restart, "a stored session is known to the next daemon, unless the operator's key is another")
{
	struct who user = {.role = WHO_TENANT, .scopes = WHO_MAY_ALL, .name = "uid=1000"};
	char text[WEB_TOKEN_LEN + 1], other[WEB_TOKEN_LEN + 1];
	struct web_sessions *next;
	struct stage stage;
	struct who who;

	stage_open(&stage);
	CHECK_OK(web_sessions_make(stage.web, &WHO_KEYHOLDER, &all, &who, text));
	CHECK_OK(web_sessions_make(stage.web, &user, &all, &who, other));
	CHECK(web_sessions_who(stage.web, str_of(other), &who) && !strcmp(who.name, "uid=1000"));
	next = web_sessions_new(&stage.manager, stage.store, stage.ring, stage.root);
	CHECK_OK(web_sessions_load(next));
	CHECK(web_sessions_who(next, str_of(text), &who) && who.role == WHO_OPERATOR);
	CHECK(!web_sessions_who(next, str_of(other), &who));
	web_sessions_free(next);
	web_sessions_end_users(stage.web);
	CHECK(!web_sessions_who(stage.web, str_of(other), &who));
	stage.root[0] = 1;
	next = web_sessions_new(&stage.manager, stage.store, stage.ring, stage.root);
	CHECK_OK(web_sessions_load(next));
	CHECK(!web_sessions_who(next, str_of(text), &who));
	web_sessions_free(next);
	stage_close(&stage);
}

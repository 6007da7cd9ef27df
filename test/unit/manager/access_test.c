#include "manager/access.h"

#include "tap.h"

static const struct who owner = {
	.role = WHO_OPERATOR, .scopes = WHO_MAY_ALL, .may_host = true, .name = "operator"};
static const struct who box = {.role = WHO_BOX, .name = "box", .tenant = "a", .box = "box-1"};
static const struct who nobody = {.role = WHO_NOBODY, .name = "nobody"};

TEST(roles, "the operator may do all, a box's token use that box, others nothing")
{
	for (int what = ACCESS_READ; what <= ACCESS_OPERATOR; what++) {
		CHECK_OK(access_ask(&owner, what));
		CHECK_ERR(access_ask(&nobody, what), FORBIDDEN);
		CHECK_ERR(access_ask(NULL, what), FORBIDDEN);
		if (what != ACCESS_USE)
			CHECK_ERR(access_ask(&box, what), FORBIDDEN);
	}
	CHECK_OK(access_ask(&box, ACCESS_USE));
}

TEST(scopes, "a tenant's key may do what its scopes say, and never act as the operator")
{
	static const struct {
		unsigned scope;
		enum access what;
	} env_map[] = {{WHO_MAY_READ, ACCESS_READ},
		       {WHO_MAY_MAKE, ACCESS_MAKE},
		       {WHO_MAY_USE, ACCESS_USE},
		       {WHO_MAY_TEMPLATES, ACCESS_TEMPLATES},
		       {WHO_MAY_ADMIN, ACCESS_KEYS}};

	for (int i = 0; i < 5; i++) {
		struct who who = {.role = WHO_TENANT, .tenant = "a", .scopes = env_map[i].scope};

		for (int j = 0; j < 5; j++)
			if (i == j)
				CHECK_OK(access_ask(&who, env_map[j].what));
			else
				CHECK_ERR(access_ask(&who, env_map[j].what), FORBIDDEN);
		CHECK_ERR(access_ask(&who, ACCESS_OPERATOR), FORBIDDEN);
	}
}

TEST(sight, "a box's token sees that box alone, a tenant its own, the operator all")
{
	const struct who a = {.role = WHO_TENANT, .tenant = "a"};
	const struct who own = {.role = WHO_TENANT, .tenant = ""};
	const struct who one = {.role = WHO_TENANT, .tenant = "a", .box = "box-1"};

	CHECK(access_sees(&owner, "", "box-1") && access_sees(&owner, "a", "box-2"));
	CHECK(access_sees(&box, "a", "box-1") && !access_sees(&box, "a", "box-2"));
	CHECK(!access_sees(&box, "a", "box-11") && !access_sees(&nobody, "", "box-1"));
	CHECK(!access_sees(NULL, "", "box-1"));
	CHECK(access_sees(&a, "a", "box-1") && !access_sees(&a, "b", "box-1"));
	CHECK(!access_sees(&a, "", "box-1") && !access_sees(&a, "aa", "box-1"));
	CHECK(access_sees(&own, "", "box-1") && !access_sees(&own, "a", "box-1"));
	CHECK(access_sees(&one, "a", "box-1") && !access_sees(&one, "a", "box-2"));
}

TEST(create, "a create is granted to the scope 'make', but never to a key of one sandbox")
{
	struct who who = {.role = WHO_TENANT, .tenant = "a", .scopes = WHO_MAY_MAKE};
	struct create_grant grant = {0};

	CHECK_OK(access_create(&who, &grant));
	CHECK(grant.who == &who);
	grant.who = NULL;
	memcpy(who.box, "box-1", 6);
	CHECK_ERR(access_create(&who, &grant), FORBIDDEN);
	who = (struct who){.role = WHO_TENANT, .tenant = "a", .scopes = WHO_MAY_USE};
	CHECK_ERR(access_create(&who, &grant), FORBIDDEN);
	CHECK_ERR(access_create(&box, &grant), FORBIDDEN);
	CHECK_ERR(access_create(NULL, &grant), FORBIDDEN);
	CHECK(!grant.who);
}

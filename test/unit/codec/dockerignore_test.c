#include "codec/dockerignore.h"

#include "tap.h"

static bool drops(const char *rules, const char *path)
{
	return dockerignore_drops(str_of(rules), str_of(path));
}

TEST(rules, "I-27: patterns begin at the directory, and mean what is beneath, too")
{
	CHECK(drops("*.o", "a.o"));
	CHECK(!drops("*.o", "src/a.o"));
	CHECK(drops("**/*.o", "src/deep/a.o"));
	CHECK(drops("**/*.o", "a.o"));
	CHECK(drops("node_modules", "node_modules/x/y"));
	CHECK(!drops("node_modules", "src/node_modules"));
	CHECK(drops("/build/\r\n", "build/x"));
	CHECK(drops("./build", "build"));
	CHECK(drops("*", "anything/at/all"));
	CHECK(!drops("# *\n\n  \n", "#"));
	CHECK(drops("src/?.c", "src/a.c"));
	CHECK(!drops("src/?.c", "src/ab.c"));
}

TEST(exceptions, "I-27: the last rule that matches decides")
{
	CHECK(!drops("*\n!keep", "keep"));
	CHECK(!drops("*\n!keep", "keep/all"));
	CHECK(drops("*\n!keep\nkeep/not", "keep/not"));
	CHECK(drops("!keep\n*", "keep"));
	CHECK(dockerignore_has_exceptions(STR("a\n!b")));
	CHECK(!dockerignore_has_exceptions(STR("a\n#!b")));
}

"""What a build makes of the sources without running them: the package fromscratch, the manifest, the inventory."""

from coursebuild import export, inventory, manifest
from coursebuild.editions import refuse_edited

HOMES = {export.FOLDER: "*.py", manifest.FOLDER: "**/*.json"}  # where nothing else lies


def files(sources):
    """Return {path: text} of all that the sources make; an error in one of them is kept with the others."""
    made = {sources.root / export.FOLDER / name: text for name, text in sources.package.items()}
    made |= manifest.files(sources)
    with sources.stopping():
        made |= inventory.files(sources.root)
    return made


def unwanted(sources, made):
    """Return the files that no lesson makes, not even one that is broken just now."""
    stopped = {name for stem in sources.stopped for name in (stem, stem[3:])}
    there = [path for home, pattern in HOMES.items() for path in (sources.root / home).glob(pattern)]
    return sorted(path for path in there if path not in made and path.stem not in stopped)


def differing(made):
    """Return {path: text} of the files that are not as they should be."""
    return {path: text for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text}


def write(sources):
    """Write what would change, remove what no lesson makes, and overwrite no notebook that was edited."""
    made = files(sources)
    for path in unwanted(sources, made):
        path.unlink()
    for path, text in differing(made).items():
        if path.suffix == ".ipynb":
            refuse_edited(path, sources.root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def stale(sources):
    """Return what is not as a build would leave it, a line each."""
    made = files(sources)
    wrong = dict.fromkeys(unwanted(sources, made), "no lesson makes it, delete it")
    wrong |= dict.fromkeys(differing(made), "is not what the sources say")
    return [f"{path.relative_to(sources.root).as_posix()}: {why}" for path, why in sorted(wrong.items())]

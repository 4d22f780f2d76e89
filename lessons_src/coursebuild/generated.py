"""What a build makes of the sources without running them: the package fromscratch, the manifest, the inventory."""

from coursebuild import export, inventory, manifest
from coursebuild.editions import refuse_edited

HOMES = {export.FOLDER: "*.py", manifest.FOLDER: "**/*.json"}  # where nothing else lies


def files(sources):
    """Return {path: text} of all that the sources make; an error in one of them is kept with the others."""
    texts = {sources.root / export.FOLDER / name: text for name, text in sources.package.items()}
    texts |= manifest.files(sources)
    with sources.stopping():
        texts |= inventory.files(sources.root)
    return texts


def unwanted(sources, texts):
    """Return the files that no lesson makes, not even one that is broken just now."""
    stopped = {name for stem in sources.stopped for name in (stem, stem[3:])}
    there = [path for home, pattern in HOMES.items() for path in (sources.root / home).glob(pattern)]
    return sorted(path for path in there if path not in texts and path.stem not in stopped)


def differing(texts):
    """Return {path: text} of the files that are not as they should be."""
    return {path: text for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text}


def write(sources):
    """Write what would change, remove what no lesson makes, and overwrite no notebook that was edited."""
    texts = files(sources)
    for path in unwanted(sources, texts):
        path.unlink()
    for path, text in differing(texts).items():
        if path.suffix == ".ipynb":
            refuse_edited(path, sources.root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def stale(sources):
    """Return what is not as a build would leave it, a line each."""
    texts = files(sources)
    wrong = dict.fromkeys(unwanted(sources, texts), "no lesson makes it, delete it")
    wrong |= dict.fromkeys(differing(texts), "is not what the sources say. A build overwrites it: edit its source")
    return [f"{path.relative_to(sources.root).as_posix()}: {why}" for path, why in sorted(wrong.items())]

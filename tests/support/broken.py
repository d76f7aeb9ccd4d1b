"""An application that cannot be imported, and counts the attempts."""

with open("imports", "a") as file:
    file.write("x")
raise RuntimeError("this application cannot be imported")
